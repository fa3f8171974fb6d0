// zstd: the elements' bytes compressed by libzstd, or uncompressed where libzstd makes them larger.
#pragma once

#include "compress/codec.h"

namespace holdfast::compress {

std::size_t zstd_bound(const Setup& setup, DType dtype, std::uint64_t count);
std::size_t zstd_encode(const Setup& setup, const EncodeRequest& request, std::span<std::byte> out);
Status zstd_decode(const Setup& setup, std::span<const std::byte> frame, DType dtype,
                   std::span<std::byte> out);
// The frame must be of f32.
Status zstd_decode_add(const Setup& setup, std::span<const std::byte> frame, std::span<float> sum);

}  // namespace holdfast::compress
