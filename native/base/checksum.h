// A 32-bit checksum against damaged bytes: four CRC-32C (Castagnoli) streams over alternating
// 8-byte words, folded into one. It does not protect against an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast {

// `seed`: other data that must match, such as a place or a kind.
std::uint32_t checksum(std::span<const std::byte> bytes, std::uint32_t seed = 0);

// The same without the processor's instruction, for tests.
std::uint32_t reference_checksum(std::span<const std::byte> bytes, std::uint32_t seed = 0);

}  // namespace holdfast
