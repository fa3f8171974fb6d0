// DeviceWatch: whether memory of a program may be a device's, which costs next to nothing where
// there is none. A program has device memory only once a driver's library is in the process, so
// until one is, no call of a driver is made: what is looked at is whether a library was loaded
// since the last look, by the last entry of the loader's list. From then on the driver is asked,
// but not of what malloc() takes behind the program's break, where no driver's memory is.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "device/driver.h"
#include "runtime/node.h"

namespace holdfast::mpi {

class DeviceWatch {
 public:
  // `driver`: the option cuda_driver. Before all else, in one thread.
  void begin(std::shared_ptr<runtime::Node> node, const std::string& driver);

  // Whether the option says that there are no devices. Any thread, from begin() on.
  bool is_off() const { return off_; }
  // Whether there may be memory of devices at all. Any thread, as below.
  bool is_possible() {
    const Sight sight = sight_.load(std::memory_order_acquire);
    return sight == Sight::kDriver || (sight == Sight::kUnloaded && is_loaded_now());
  }
  // The device that owns the memory; nothing: it is the host's.
  std::optional<int> device_of(const void* memory) {
    return !is_possible() || is_of_heap(memory) ? std::nullopt : ask(memory);
  }

 private:
  enum class Sight : std::uint8_t {
    kNone,      // there is no driver, and none will be used
    kUnloaded,  // none so far
    kDriver,
  };
  bool is_loaded_now();
  bool is_of_heap(const void* memory) const;
  std::optional<int> ask(const void* memory);
  bool open();

  bool off_ = false;
  std::atomic<Sight> sight_{Sight::kNone};  // release: driver_ is there
  std::shared_ptr<runtime::Node> node_;     // owners: the process, and this
  std::uintptr_t heap_ = UINTPTR_MAX;       // where it begins
  std::mutex mutex_;                        // held while the driver is opened
  device::DriverTable driver_;              // written once, before kDriver
};

}  // namespace holdfast::mpi
