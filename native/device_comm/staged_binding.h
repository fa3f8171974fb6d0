// Which host memory holds an op's device memory, and what is copied between the two.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "device/driver.h"

namespace holdfast::device_comm {

// A pointer as the number that the driver takes, and back.
inline device::DevicePointer address(const void* memory) {
  return reinterpret_cast<device::DevicePointer>(memory);
}
inline std::byte* pointer(device::DevicePointer address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// A run of bytes in device memory, and its host memory.
struct StagedCopy {
  device::DevicePointer device = 0;
  std::byte* host = nullptr;
  std::uint64_t bytes = 0;
};
struct StagedCopies {
  std::vector<StagedCopy> up;
  std::vector<StagedCopy> down;
};

// Equal blocks share a place, as they do for the caller, so that an op in place stays in place.
class StagedBinding {
 public:
  // Bytes of host memory that all blocks take.
  std::uint64_t plan(const comm::OpRequest& request);
  // The request with host memory from `base` on.
  comm::OpRequest bind(const comm::OpRequest& request, std::byte* base) const;
  // The copies up before the op, and those down after it.
  StagedCopies copies(const comm::OpRequest& request, std::byte* base, Rank rank) const;

 private:
  struct StagedPlace {
    const void* device;
    std::uint64_t bytes;
    std::uint64_t offset;
  };
  void place(const void* device, std::uint64_t bytes);
  std::uint64_t offset_of(const void* device) const;

  std::vector<StagedPlace> places_;
  std::uint64_t bytes_ = 0;
};

}  // namespace holdfast::device_comm
