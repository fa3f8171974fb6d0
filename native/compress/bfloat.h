// bfloat: bf16 without loss. Trained weights and gradients use few exponents, while their signs and
// mantissas are noise (Hershcovitch et al., 2024, "ZipNN"). Signs and mantissas stay as they are;
// exponents get three bits around the block's most frequent ones or, in the dense tier, a Huffman
// code.
//
// A frame: a header, then blocks, each with a header, a checksum and one of these bodies:
//   raw       its elements
//   encoded   a byte of sign and mantissa per element; three words of codes per 32 elements;
//             escaped exponents
//   dense     a byte of sign and mantissa per element; the exponents through zstd_bytes.h
#pragma once

#include "compress/codec.h"

namespace holdfast::compress {

std::size_t bfloat_bound(const Setup& setup, DType dtype, std::uint64_t count);
std::size_t bfloat_encode(const Setup& setup, const EncodeRequest& request,
                          std::span<std::byte> out);
Status bfloat_decode(const Setup& setup, std::span<const std::byte> frame, DType dtype,
                     std::span<std::byte> out);
Status bfloat_decode_add(const Setup& setup, std::span<const std::byte> frame,
                         std::span<float> sum);

}  // namespace holdfast::compress
