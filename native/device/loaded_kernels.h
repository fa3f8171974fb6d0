// Loaded kernels: the catalogue's kernels on one device, each image loaded when it is first used.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>

#include "device/driver.h"
#include "device/kernel.h"

namespace holdfast::device {

class LoadedKernels final {
 public:
  // `processors`: the device's multiprocessors.
  LoadedKernels(DriverTable driver, std::uint32_t processors)
      : driver_(std::move(driver)), processors_(processors) {}

  // Loads the kernel ahead of launch(), because loading may wait for the device. In the device's
  // context; a caller's thread. The errors are those of launch().
  Status load(const KernelRow& row);
  // Enqueues the kernel on a persistent grid. In the device's context; any thread. kUnsupported
  // when the build has no image of the kernel.
  Status launch(const KernelRow& row, std::uint64_t threads_of_work, const void* argument,
                CuStream stream);
  // No launched kernel may still run. In the device's context.
  void unload();

 private:
  Result<CuFunction> find(const KernelRow& row);
  Result<CuModule> load_image(const KernelRow& row);

  const DriverTable driver_;
  const std::uint32_t processors_;
  std::mutex mutex_;                              // guards both maps
  std::map<std::string_view, CuModule> modules_;  // by image
  std::map<std::string_view, CuFunction> functions_;
};

}  // namespace holdfast::device
