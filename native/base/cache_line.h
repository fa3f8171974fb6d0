// The unit in which processors share memory.
#pragma once

#include <cstdint>

namespace holdfast {

constexpr std::uint64_t kCacheLine = 64;  // bytes

}  // namespace holdfast
