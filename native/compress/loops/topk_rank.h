// An element of topk as one number, its rank: a greater rank is sent first. The highest bits are
// the magnitude, then the inverted element number, so that the lower number wins; the sign bit is
// last and decides nothing, as numbers are unique.
#pragma once

#include <cstdint>

namespace holdfast::compress {
namespace {

inline std::uint64_t rank_of(std::uint32_t bits, std::uint32_t number) {
  return std::uint64_t{bits & 0x7fffffffU} << 33 |
         std::uint64_t{static_cast<std::uint32_t>(~number)} << 1 | bits >> 31;
}
inline std::uint32_t number_of(std::uint64_t rank) {
  return ~static_cast<std::uint32_t>(rank >> 1);
}
inline std::uint32_t magnitude_of(std::uint64_t rank) {
  return static_cast<std::uint32_t>(rank >> 33);
}
inline std::uint32_t bits_of_rank(std::uint64_t rank) {
  return magnitude_of(rank) | static_cast<std::uint32_t>(rank & 1) << 31;
}

}  // namespace
}  // namespace holdfast::compress
