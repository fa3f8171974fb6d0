// DeviceForm: a type as a device packs it, kept with the type, since the lists of its blocks are as
// large as what they list.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "device_comm/device_layout.h"

namespace holdfast::mpi {

// For the last count and device that it was asked for. Any thread.
class DeviceForm {
 public:
  // In the device's context.
  Result<std::shared_ptr<const device_comm::DeviceLayout>> get(
      const std::shared_ptr<device_comm::Staged>& staged, const datatype::TypeLayout& layout,
      std::int64_t count);

 private:
  std::mutex mutex_;  // guards all below
  std::int64_t count_ = 0;
  // Owners: this, and what is moved by it.
  std::shared_ptr<const device_comm::DeviceLayout> made_;
};

}  // namespace holdfast::mpi
