// topk: the elements of a chunk with the largest magnitudes, as numbers and values (Aji and
// Heafield, 2017; with error feedback: Stich et al., 2018). Ties go to the lowest number.
//
// A frame: k numbers (u32, ascending), then their k values (f32). k = ceil(ratio * count).
#pragma once

#include "compress/codec.h"

namespace holdfast::compress {

std::size_t topk_bound(const Setup& setup, DType dtype, std::uint64_t count);
std::size_t topk_encode(const Setup& setup, const EncodeRequest& request, std::span<std::byte> out);
Status topk_decode(const Setup& setup, std::span<const std::byte> frame, DType dtype,
                   std::span<std::byte> out);
Status topk_decode_add(const Setup& setup, std::span<const std::byte> frame, std::span<float> sum);

}  // namespace holdfast::compress
