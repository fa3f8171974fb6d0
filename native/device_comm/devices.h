// Devices: the CUDA devices of a process, each opened when its memory is first passed to an op. A
// process that passes none never looks for a driver.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "comm/transport/pool.h"
#include "device/emulated_driver.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

// Values of the option cuda_driver; the first is the default.
inline constexpr const char* kCudaDrivers[] = {"", "emulated", "none"};
// Values of the options cuda_ipc and cuda_codec; the first is the default.
inline constexpr const char* kCudaPaths[] = {"auto", "off"};

struct DeviceSettings {
  std::string driver;  // the option cuda_driver
  StagedSettings staged = {};
};

class Devices final {
 public:
  // Staging memory comes from the pool, so that the other ranks of the host read it where it lies.
  // `driver`: null: the one that the settings name.
  Devices(DeviceSettings settings, std::shared_ptr<comm::MemoryPool> pool,
          device::DriverTable driver)
      : settings_(std::move(settings)), pool_(std::move(pool)), driver_(std::move(driver)) {}

  // The driver; kUnsupported, with what is missing. Any thread.
  Result<device::DriverTable> driver();
  // Collectives on memory of one device. `executor`: the node's. Any thread but the runtime's.
  Result<std::shared_ptr<Staged>> staged(int ordinal, std::weak_ptr<comm::Executor> executor);

 private:
  Result<device::DriverTable> open();

  const DeviceSettings settings_;
  const std::shared_ptr<comm::MemoryPool> pool_;  // owners: as Node::pool() says
  std::mutex mutex_;                              // guards all below
  device::DriverTable driver_;
  // By ordinal. Owners: this object, and their works.
  std::map<int, std::shared_ptr<Staged>> staged_;
};

}  // namespace holdfast::device_comm
