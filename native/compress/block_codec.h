// The codecs whose frames have a fixed size: first one scale per block, then a few bits per
// element. This file knows sizes, tails and element types; the arithmetic is in the loops
// (kernels.h).
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

// Convert elements of bf16 or f16 to f32, and back with rounding to nearest even.
void widen(CpuLevel level, DType dtype, const std::byte* from, float* to, std::uint64_t count);
void narrow(CpuLevel level, DType dtype, const float* from, std::byte* to, std::uint64_t count);

}  // namespace holdfast::compress
