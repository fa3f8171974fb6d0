// Kernels as data: the name of every kernel of this build, the size of its argument, and how a
// machine without a GPU runs it. A `.cu` file is compiled twice: by nvcc to an image that the
// driver loads, and as host code for the emulator (simt.h). This file does not depend on the
// driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast::device {

struct KernelLaunch {
  std::uint32_t blocks;
  std::uint32_t threads;  // per block
};

struct KernelRow {
  std::string_view name;   // its extern "C" symbol; ends with a NUL
  std::string_view image;  // name of the image it is in
  std::size_t argument_bytes;
  // Runs the kernel on the CPU, thread by thread, with the same bits as on a GPU. Any thread;
  // pointers in the argument are host memory. A block has kThreads threads, as on the GPU.
  void (*emulate)(const KernelLaunch&, const void* argument);
};

// A fatbin for cuModuleLoadData(), aligned to 16 bytes.
struct KernelImage {
  std::string_view name;
  std::span<const std::byte> bytes;
};

// Every kernel of this build; each takes ONE trivially copyable struct by value, and any number of
// blocks gives the same result.
std::span<const KernelRow> kernels();
// Empty where the build had no nvcc.
std::span<const KernelImage> kernel_images();

// nullptr when no kernel has this name.
const KernelRow* find_kernel(std::string_view name);

// Threads per block; all kernels are compiled for this number.
inline constexpr std::uint32_t kThreads = 256;
// Blocks that one multiprocessor holds at a time; kernels use few enough registers for this.
inline constexpr std::uint32_t kBlocksPerProcessor = 4;

// A persistent grid: as many blocks as the device holds at a time, or fewer when `threads_of_work`
// needs fewer.
KernelLaunch persistent(std::uint64_t threads_of_work, std::uint32_t processors);

}  // namespace holdfast::device
