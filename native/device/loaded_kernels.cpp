#include "device/loaded_kernels.h"

#include <algorithm>
#include <string>
#include <vector>

namespace holdfast::device {

// The caller holds mutex_.
Result<CuModule> LoadedKernels::load_image(const KernelRow& row) {
  if (const auto loaded = modules_.find(row.image); loaded != modules_.end()) return loaded->second;
  const auto images = kernel_images();
  const auto image = std::find_if(images.begin(), images.end(), [&](const KernelImage& other) {
    return other.name == row.image;
  });
  CuModule module;
  if (image != images.end()) {
    TRY(check(*driver_, driver_->module_load_data(&module, image->bytes.data()),
              "loading kernels"));
  } else if (!driver_->runs_rows) {
    return Status(Code::kUnsupported,
                  "this build has no kernels for GPUs: it was made without nvcc (holdfast info)");
  }
  modules_.emplace(row.image, module);
  return module;
}

Result<CuFunction> LoadedKernels::find(const KernelRow& row) {
  const std::lock_guard lock(mutex_);
  if (const auto found = functions_.find(row.name); found != functions_.end()) {
    return found->second;
  }
  auto module = load_image(row);
  if (!module.is_ok()) return module.status();
  CuFunction function;
  TRY(check(*driver_, driver_->module_get_function(&function, module.value(), row.name.data()),
            "finding a kernel"));
  functions_.emplace(row.name, function);
  return function;
}

Status LoadedKernels::load(const KernelRow& row) { return find(row).status(); }

Status LoadedKernels::launch(const KernelRow& row, std::uint64_t threads_of_work,
                             const void* argument, CuStream stream) {
  auto function = find(row);
  if (!function.is_ok()) return function.status();
  const KernelLaunch grid = persistent(threads_of_work, processors_);
  // The driver copies the argument before it returns; its interface has no const.
  void* arguments[] = {const_cast<void*>(argument)};
  return check(
      *driver_,
      driver_->launch_kernel(function.value(), {grid.blocks}, {grid.threads}, 0, stream, arguments),
      "launching a kernel");
}

void LoadedKernels::unload() {
  const std::lock_guard lock(mutex_);
  for (const auto& [image, module] : modules_) {
    if (module.value != nullptr) driver_->module_unload(module);
  }
  modules_.clear();
  functions_.clear();
}

}  // namespace holdfast::device
