// Kernels as data: what every kernel of this build is called, what it takes, and how a machine
// without a GPU runs it. A `.cu` file is compiled twice: by nvcc to an image that the driver loads,
// and as host code for the emulator (simt.h). The driver is no matter of this file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast::device {

struct KernelLaunch {
  std::uint32_t blocks;
  std::uint32_t threads;  // of a block
};

struct KernelRow {
  std::string_view name;   // its extern "C" symbol; ends with a NUL
  std::string_view image;  // the image it is in, by name
  std::size_t argument_bytes;
  // Runs it on this processor, thread by thread, with the bits that a GPU gives. Any thread;
  // pointers in the argument are host memory. It takes kThreads to a block, as the GPU does.
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

// nullptr when there is none of this name.
const KernelRow* find_kernel(std::string_view name);

// Threads of a block, which all kernels are compiled for.
inline constexpr std::uint32_t kThreads = 256;
// Blocks that one multiprocessor holds at a time; kernels use few enough registers for it.
inline constexpr std::uint32_t kBlocksPerProcessor = 4;

// A grid that stays: as many blocks as the device holds, or fewer where `threads_of_work` says that
// there is not so much to do.
KernelLaunch persistent(std::uint64_t threads_of_work, std::uint32_t processors);

}  // namespace holdfast::device
