// The vocabulary of kernels: a few names that mean the same to nvcc and to the C++ compiler, for
// which simt.cpp runs threads in turn. A kernel is a function of a thread and ONE argument:
//
//   HOLDFAST_DEVICE void twice(const Thread& thread, const TwiceArgument& a) {
//     for (u64 i = thread.global(); i < a.count; i += thread.stride()) a.data[i] *= 2;
//   }
//   #define KERNELS(KERNEL) KERNEL(holdfast_twice, twice)
//   HOLDFAST_KERNELS(doubling, KERNELS)
//
// A kernel whose threads work alone takes a Thread, and runs as a loop where there is no GPU. A
// kernel whose threads cooperate takes a Team: all 32 lanes of a warp must come to every exchange,
// and all threads of a block to sync().
//
// Kernels give the same bits as CPUs: no contraction (-fmad=false, -ffp-contract=off), no
// approximate division or root (nvcc's defaults), denormals kept. Only the bits of a NaN differ.
// Why: docs/decisions/0073-kernels-are-compiled-twice.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "device/kernel.h"

// The second exception to the rule about macros: these words have no other spelling.
#if defined(__CUDACC__)
#define HOLDFAST_DEVICE __device__ __forceinline__
#define HOLDFAST_UNROLL _Pragma("unroll")
#define HOLDFAST_CONSTANT __constant__ const
#else
#define HOLDFAST_DEVICE inline
#define HOLDFAST_CONSTANT inline constexpr
#define HOLDFAST_UNROLL  // unrolling only saves registers of a GPU
#endif

namespace holdfast::device {

inline constexpr std::uint32_t kWarp = 32;
inline constexpr std::size_t kSharedBytes = 48 * 1024;  // every device has these

#if !defined(__CUDACC__)
// A block whose threads wait for each other; see simt.cpp.
class ThreadBarrier {
 public:
  virtual ~ThreadBarrier() = default;
  // Returns the values of all lanes of the warp.
  virtual const std::uint64_t* exchange(std::uint32_t thread, std::uint64_t value) = 0;
  virtual void sync(std::uint32_t thread) = 0;
  virtual void* shared() = 0;
};
struct ThreadPlace {
  std::uint32_t thread = 0;
  std::uint32_t block = 0;
  std::uint32_t blocks = 1;
  ThreadBarrier* meeting = nullptr;
};
#endif

// A thread, and its place in the grid.
class Thread {
 public:
#if defined(__CUDACC__)
  HOLDFAST_DEVICE std::uint32_t index() const { return threadIdx.x; }
  HOLDFAST_DEVICE std::uint32_t block() const { return blockIdx.x; }
  HOLDFAST_DEVICE std::uint32_t blocks() const { return gridDim.x; }
#else
  explicit Thread(const ThreadPlace& place) : place_(place) {}
  std::uint32_t index() const { return place_.thread; }
  std::uint32_t block() const { return place_.block; }
  std::uint32_t blocks() const { return place_.blocks; }
#endif
  HOLDFAST_DEVICE std::uint32_t lane() const { return index() % kWarp; }
  // Index among all threads of the grid, and their number.
  HOLDFAST_DEVICE std::uint64_t global() const {
    return std::uint64_t{block()} * kThreads + index();
  }
  HOLDFAST_DEVICE std::uint64_t stride() const { return std::uint64_t{blocks()} * kThreads; }
  // Index among all warps of the grid, and their number.
  HOLDFAST_DEVICE std::uint64_t warp() const { return global() / kWarp; }
  HOLDFAST_DEVICE std::uint64_t warps() const { return stride() / kWarp; }

#if !defined(__CUDACC__)
 protected:
  ThreadPlace place_;
#endif
};

// A thread that cooperates with others of its warp and block.
class Team : public Thread {
 public:
#if defined(__CUDACC__)
  HOLDFAST_DEVICE void sync() const { __syncthreads(); }
  HOLDFAST_DEVICE void sync_warp() const { __syncwarp(); }
  template <class T>
  HOLDFAST_DEVICE T shuffle(T value, std::uint32_t from) const {
    return __shfl_sync(~0U, value, static_cast<int>(from));
  }
  HOLDFAST_DEVICE std::uint32_t ballot(bool yes) const { return __ballot_sync(~0U, yes); }
  HOLDFAST_DEVICE std::uint32_t greatest(std::uint32_t value) const {
    return __reduce_max_sync(~0U, value);
  }
  HOLDFAST_DEVICE std::uint32_t least(std::uint32_t value) const {
    return __reduce_min_sync(~0U, value);
  }
  // One T for all threads of the block; not initialised.
  template <class T>
  HOLDFAST_DEVICE T& shared() const {
    static_assert(sizeof(T) <= kSharedBytes);
    __shared__ T memory;
    return memory;
  }
#else
  using Thread::Thread;
  void sync() const { place_.meeting->sync(place_.thread); }
  void sync_warp() const { place_.meeting->exchange(place_.thread, 0); }
  template <class T>
  T shuffle(T value, std::uint32_t from) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    word = place_.meeting->exchange(place_.thread, word)[from % kWarp];
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
  std::uint32_t ballot(bool yes) const;
  std::uint32_t greatest(std::uint32_t value) const;
  std::uint32_t least(std::uint32_t value) const;
  template <class T>
  T& shared() const {
    static_assert(sizeof(T) <= kSharedBytes);
    return *static_cast<T*>(place_.meeting->shared());
  }
#endif
  // Returns the value of the lane whose index differs in these bits.
  template <class T>
  HOLDFAST_DEVICE T swap(T value, std::uint32_t bits) const {
    return shuffle(value, lane() ^ bits);
  }
};

template <class Body>
struct Signature;
template <class Who, class What>
struct Signature<void (*)(const Who&, const What&)> {
  using Worker = Who;
  using Argument = What;
};

#if !defined(__CUDACC__)
// Runs blocks one after the other, and the threads of each in turns, switching at each exchange.
void run_teams(const KernelLaunch& launch, void (*body)(const Team&, const void*),
               const void* argument);
void check_launch(const KernelLaunch& launch);

template <auto kBody>
void emulate(const KernelLaunch& launch, const void* argument) {
  using Worker = typename Signature<decltype(kBody)>::Worker;
  using Argument = typename Signature<decltype(kBody)>::Argument;
  static_assert(std::is_trivially_copyable_v<Argument>);
  check_launch(launch);
  Argument a;
  std::memcpy(static_cast<void*>(&a), argument, sizeof a);
  if constexpr (std::is_same_v<Worker, Team>) {
    run_teams(
        launch,
        [](const Team& team, const void* at) { kBody(team, *static_cast<const Argument*>(at)); },
        &a);
  } else {
    for (std::uint32_t block = 0; block < launch.blocks; ++block) {
      for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
        kBody(Thread({thread, block, launch.blocks, nullptr}), a);
      }
    }
  }
}
#endif

}  // namespace holdfast::device

// Defines the kernels of a file, in namespace holdfast: KERNELS(KERNEL) is a list of KERNEL(symbol,
// body). nvcc makes entry points of them; the C++ compiler makes the rows of a set (kernel_sets.h).
#if defined(__CUDACC__)
#define HOLDFAST_ENTRY(symbol, ...)                                                               \
  extern "C" __global__ void __launch_bounds__(device::kThreads, device::kBlocksPerProcessor)     \
      symbol(                                                                                     \
          const __grid_constant__ device::Signature<decltype(&__VA_ARGS__)>::Argument argument) { \
    __VA_ARGS__(device::Signature<decltype(&__VA_ARGS__)>::Worker{}, argument);                   \
  }
#define HOLDFAST_KERNELS(set, KERNELS) KERNELS(HOLDFAST_ENTRY)
#else
#define HOLDFAST_ROW(symbol, ...)                                                                 \
  device::KernelRow{#symbol, kImage, sizeof(device::Signature<decltype(&__VA_ARGS__)>::Argument), \
                    device::emulate<&__VA_ARGS__>},
#define HOLDFAST_KERNELS(set, KERNELS)                                    \
  std::span<const device::KernelRow> device::set##_kernels() {            \
    static constexpr std::string_view kImage = #set;                      \
    static constexpr device::KernelRow kRows[] = {KERNELS(HOLDFAST_ROW)}; \
    return kRows;                                                         \
  }
#endif
