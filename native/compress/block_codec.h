// The codecs of fixed size: scales first, one to a block, then a few bits to each element. This
// file knows sizes, tails and element types; the arithmetic is in the loops (kernels.h).
// Why: docs/decisions/0044-steps-of-16-bits.md
#pragma once

#include "compress/codec.h"

namespace holdfast::compress {

std::size_t block_bound(const Setup& setup, DType dtype, std::uint64_t count);
std::size_t block_encode(const Setup& setup, const EncodeRequest& request,
                         std::span<std::byte> out);
Status block_decode(const Setup& setup, std::span<const std::byte> frame, DType dtype,
                    std::span<std::byte> out);
Status block_decode_add(const Setup& setup, std::span<const std::byte> frame, std::span<float> sum);

// Elements of bf16 or f16 as f32, and rounded back to nearest even.
void widen(CpuLevel level, DType dtype, const std::byte* from, float* to, std::uint64_t count);
void narrow(CpuLevel level, DType dtype, const float* from, std::byte* to, std::uint64_t count);

}  // namespace holdfast::compress
