// Converts addresses of device memory between numbers, which the driver takes, and pointers, which
// kernels take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/driver.h"

namespace holdfast::device {

inline DevicePointer number_of(const void* memory) {
  return reinterpret_cast<DevicePointer>(memory);
}
inline std::byte* pointer_to(DevicePointer memory) {
  return reinterpret_cast<std::byte*>(memory);  // NOLINT(performance-no-int-to-ptr)
}

// The address so many bytes further on, or back.
constexpr DevicePointer moved(DevicePointer address, std::int64_t bytes) {
  return address + static_cast<DevicePointer>(bytes);
}

}  // namespace holdfast::device
