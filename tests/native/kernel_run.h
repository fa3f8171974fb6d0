// Runs rows of the kernels' catalogue: on a GPU where there is one, else on the emulator. The same
// tests for both; HOLDFAST_TEST_EMULATOR=1 keeps them off the GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/driver.h"
#include "device/kernel.h"

namespace holdfast::device {

// The first GPU, with every image loaded.
class Gpu {
 public:
  // nullptr where there is none, or the build has no images.
  static const Gpu* find() {
    static const std::unique_ptr<Gpu> gpu = open();
    return gpu.get();
  }

  std::byte* allocate(std::size_t bytes) const {
    void* memory = nullptr;
    REQUIRE(driver_->mem_host_alloc(&memory, bytes, kHostPortable | kHostDeviceMap) ==
            Cu::kSuccess);
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) const { driver_->mem_free_host(memory); }

  void run(const KernelRow& row, const KernelLaunch& launch, const void* argument) const {
    CuFunction function;
    REQUIRE(driver_->module_get_function(&function, modules_.at(row.image), row.name.data()) ==
            Cu::kSuccess);
    std::vector<std::byte> copy(row.argument_bytes);
    std::memcpy(copy.data(), argument, copy.size());
    void* arguments[] = {copy.data()};
    REQUIRE(driver_->launch_kernel(function, {launch.blocks}, {launch.threads}, 0, legacy_stream(),
                                   arguments) == Cu::kSuccess);
    REQUIRE(driver_->stream_synchronize(legacy_stream()) == Cu::kSuccess);
  }

 private:
  static std::unique_ptr<Gpu> open() {
    if (kernel_images().empty() || std::getenv("HOLDFAST_TEST_EMULATOR") != nullptr) return nullptr;
    auto table = open_driver();
    if (!table.is_ok()) return nullptr;
    auto gpu = std::make_unique<Gpu>();
    gpu->driver_ = table.value();
    DeviceId device = 0;
    CuContext context;
    const CudaDriver& driver = *gpu->driver_;
    if (driver.device_get(&device, 0) != Cu::kSuccess) return nullptr;
    REQUIRE(driver.device_primary_ctx_retain(&context, device) == Cu::kSuccess);
    REQUIRE(driver.ctx_set_current(context) == Cu::kSuccess);
    for (const KernelImage& image : kernel_images()) {
      CuModule& module = gpu->modules_[image.name];
      REQUIRE(driver.module_load_data(&module, image.bytes.data()) == Cu::kSuccess);
    }
    return gpu;
  }

  DriverTable driver_;
  std::map<std::string_view, CuModule> modules_;
};

// Memory that kernels reach, exactly so long that a sanitizer sees what goes beyond it; `offset`
// bytes off a vector's alignment.
class Memory {
 public:
  explicit Memory(std::size_t bytes, std::size_t offset = 0)
      : size_(bytes), offset_(offset), bytes_(allocate(bytes + offset)) {
    std::memset(bytes_.get(), 0x5a, bytes + offset);
  }
  Memory(const std::vector<std::byte>& from, std::size_t offset) : Memory(from.size(), offset) {
    if (!from.empty()) std::memcpy(data(), from.data(), from.size());
  }
  // Of these values.
  template <class T>
  static Memory of(const std::vector<T>& values) {
    Memory memory(values.size() * sizeof(T));
    std::memcpy(memory.data(), static_cast<const void*>(values.data()), memory.size());
    return memory;
  }

  std::byte* data() const { return bytes_.get() + offset_; }
  std::size_t size() const { return size_; }
  std::vector<std::byte> copy() const { return {data(), data() + size_}; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }

 private:
  static constexpr std::align_val_t kAlignment{16};
  struct Free {
    void operator()(std::byte* bytes) const {
      if (Gpu::find() != nullptr) {
        Gpu::find()->release(bytes);
      } else {
        operator delete[](bytes, kAlignment);
      }
    }
  };
  static std::byte* allocate(std::size_t bytes) {
    if (Gpu::find() != nullptr) return Gpu::find()->allocate(bytes + 1);
    return new (kAlignment) std::byte[bytes];
  }

  std::size_t size_;
  std::size_t offset_;
  std::unique_ptr<std::byte[], Free> bytes_;
};

template <class Argument>
void run(const KernelRow& row, std::uint32_t blocks, const Argument& argument) {
  REQUIRE(sizeof argument == row.argument_bytes);
  const KernelLaunch launch{blocks, kThreads};
  if (Gpu::find() != nullptr) {
    Gpu::find()->run(row, launch, &argument);
  } else {
    row.emulate(launch, &argument);
  }
}

// For the log: what ran where.
inline std::string where() {
  return Gpu::find() != nullptr ? "on the GPU"
                                : "on the emulator; on a GPU: skipped, waits for a CUDA device";
}

}  // namespace holdfast::device
