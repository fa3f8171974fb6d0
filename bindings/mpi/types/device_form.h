// DeviceForm: a type as a device packs it, kept with the type, since the lists of its blocks are as
// large as what they list.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "device_comm/device_layout.h"

namespace holdfast::mpi {

// For the counts and devices that it was asked for last. Any thread.
class DeviceForm {
 public:
  // In the device's context.
  Result<std::shared_ptr<const device_comm::DeviceLayout>> get(
      const std::shared_ptr<device_comm::Staged>& staged, const datatype::TypeLayout& layout,
      std::int64_t count);

 private:
  // Programs use a type with few counts; a form may be large.
  static constexpr std::size_t kKeptForms = 4;
  struct CountedForm {
    std::int64_t count = 0;
    // Owners: this, and what is moved by it.
    std::shared_ptr<const device_comm::DeviceLayout> layout;
  };

  std::mutex mutex_;  // guards all below
  std::array<CountedForm, kKeptForms> kept_;
  std::size_t next_ = 0;  // the one that goes first
};

}  // namespace holdfast::mpi
