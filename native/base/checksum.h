// A 32-bit checksum against damaged bytes: four CRC-32C (Castagnoli) streams over alternating
// 8-byte words, folded into one. Not against anybody who means harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast {

// `seed` is for what else must match: a place, a kind.
std::uint32_t checksum(std::span<const std::byte> bytes, std::uint32_t seed = 0);

// Without the processor's instruction, for tests.
std::uint32_t reference_checksum(std::span<const std::byte> bytes, std::uint32_t seed = 0);

}  // namespace holdfast
