// Copies between a caller's memory and ours, at the speed of memory whatever their addresses are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace holdfast {

// Up to this size the C library copies by loops whose speed does not depend on addresses.
inline constexpr std::size_t kShortCopy = 2048;

// As copy_bytes(), for more than kShortCopy bytes.
void copy_long(std::byte* to, const std::byte* from, std::size_t bytes);

// Copies `bytes`, 0 of them too, between ranges that do not overlap.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > kShortCopy) {
    copy_long(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace holdfast
