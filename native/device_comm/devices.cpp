#include "device_comm/devices.h"

#include "device/kernel.h"

namespace holdfast::device_comm {

Result<device::DriverTable> Devices::driver() {
  const std::lock_guard lock(mutex_);
  return open();
}

// Called under the lock.
Result<device::DriverTable> Devices::open() {
  if (driver_ != nullptr) return driver_;
  if (settings_.driver == "none") {
    return Status(Code::kUnsupported, "no CUDA driver: option cuda_driver is \"none\"");
  }
  if (settings_.driver == "emulated") {
    device::EmulatedSettings settings;
    settings.kernels = device::kernels();
    settings.exports = true;
    driver_ = device::make_emulated_driver(settings).table;
    return driver_;
  }
  auto opened = device::open_driver();
  if (opened.is_ok()) driver_ = opened.value();
  return opened;
}

Result<std::shared_ptr<Staged>> Devices::staged(int ordinal,
                                                std::weak_ptr<comm::Executor> executor) {
  const std::lock_guard lock(mutex_);
  if (const auto found = staged_.find(ordinal); found != staged_.end()) return found->second;
  auto driver = open();
  if (!driver.is_ok()) return driver.status();
  device::HostMemory host{[pool = pool_](std::uint64_t bytes) { return pool->allocate(bytes); },
                          [pool = pool_](std::byte* data) { pool->release(data); }};
  auto device = device::Device::open(driver.value(), ordinal, std::move(host));
  if (!device.is_ok()) return device.status();
  auto staged = Staged::make(std::move(device).value(), std::move(executor), settings_.staged);
  if (staged.is_ok()) staged_[ordinal] = staged.value();
  return staged;
}

}  // namespace holdfast::device_comm
