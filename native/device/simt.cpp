// Runs the threads of a block on one CPU thread. Each is a context with a stack of its own, and
// runs in turn until it has to wait for others. There is no parallelism, and every run has the same
// order.
#include "device/simt.h"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/check.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOLDFAST_ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HOLDFAST_ASAN
#endif
#if defined(HOLDFAST_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace holdfast::device {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;  // enough for kernels, even sanitized
constexpr std::uint32_t kMostBlocks = 1U << 30;
// Fills uninitialised shared memory: it makes a NaN, and an implausible count.
constexpr auto kPoison = static_cast<std::byte>(0xff);

struct Stack {
  alignas(64) std::array<std::byte, kStackBytes> bytes;
};

// Tells AddressSanitizer of each change of stacks; does nothing in builds without it.
#if defined(HOLDFAST_ASAN)
class Sanitizer {
 public:
  // The last thread on this stack left without unwinding.
  static void renew(const Stack& stack) {
    __asan_unpoison_memory_region(stack.bytes.data(), kStackBytes);
  }
  void to_fiber(const Stack& stack) {
    __sanitizer_start_switch_fiber(&fake_, stack.bytes.data(), kStackBytes);
  }
  void on_fiber(void* fake) { __sanitizer_finish_switch_fiber(fake, &stack_, &bytes_); }
  // nullptr: the fiber does not come back.
  void to_scheduler(void** fake) { __sanitizer_start_switch_fiber(fake, stack_, bytes_); }
  void on_scheduler() { __sanitizer_finish_switch_fiber(fake_, nullptr, nullptr); }

 private:
  void* fake_ = nullptr;
  const void* stack_ = nullptr;  // the scheduler's
  std::size_t bytes_ = 0;
};
#else
class Sanitizer {
 public:
  static void renew(const Stack&) {}
  void to_fiber(const Stack&) {}
  void on_fiber(void*) {}
  void to_scheduler(void**) {}
  void on_scheduler() {}
};
#endif

struct Fiber {
  ucontext_t context{};
  void* fake_stack = nullptr;  // AddressSanitizer's
  bool done = false;
};

class ThreadBlock final : public ThreadBarrier {
 public:
  using Body = void (*)(const Team&, const void*);

  ThreadBlock(Body body, const void* argument)
      : body_(body), argument_(argument), stacks_(stacks()) {}

  void run(std::uint32_t block, std::uint32_t blocks);

  const std::uint64_t* exchange(std::uint32_t thread, std::uint64_t value) override {
    Gathering& warp = warps_[thread / kWarp];
    // Values of two rounds are kept for lanes that read late; no lane is more than one round ahead.
    std::array<std::uint64_t, kWarp>& values = warp.values[warp.round % 2];
    values[thread % kWarp] = value;
    meet(warp, kWarp);
    return values.data();
  }
  void sync(std::uint32_t) override { meet(whole_, kThreads); }
  void* shared() override { return shared_.data(); }

 private:
  struct Gathering {
    std::uint64_t round = 0;
    std::uint32_t arrived = 0;
    std::array<std::array<std::uint64_t, kWarp>, 2> values{};
  };

  static Stack* stacks();
  static void enter(unsigned low, unsigned high);
  void prepare(std::uint32_t thread);
  void switch_to(std::uint32_t thread);
  void switch_back();
  void meet(Gathering& gathering, std::uint32_t members);

  Body body_;
  const void* argument_;
  Stack* const stacks_;
  std::array<Fiber, kThreads> fibers_;
  std::array<Gathering, kThreads / kWarp> warps_;
  Gathering whole_;
  alignas(64) std::array<std::byte, kSharedBytes> shared_;
  ucontext_t scheduler_{};
  Sanitizer sanitizer_;
  std::uint32_t current_ = 0;
  std::uint32_t block_ = 0;
  std::uint32_t blocks_ = 1;
  std::uint64_t steps_ = 0;  // counts arrivals at a barrier and ends of threads
};

// The stacks of the calling thread, kept for its next launch, because fresh pages cost more than a
// small kernel. One set is enough: a kernel launches no other kernel.
Stack* ThreadBlock::stacks() {
  thread_local const auto all = std::make_unique_for_overwrite<Stack[]>(kThreads);
  return all.get();
}

void ThreadBlock::enter(unsigned low, unsigned high) {
  auto* self = reinterpret_cast<ThreadBlock*>(std::uintptr_t{high} << 32 | std::uintptr_t{low});
  self->sanitizer_.on_fiber(nullptr);
  const std::uint32_t thread = self->current_;
  self->body_(Team({thread, self->block_, self->blocks_, self}), self->argument_);
  self->fibers_[thread].done = true;
  ++self->steps_;
  self->sanitizer_.to_scheduler(nullptr);
  setcontext(&self->scheduler_);
}

void ThreadBlock::switch_to(std::uint32_t thread) {
  current_ = thread;
  sanitizer_.to_fiber(stacks_[thread]);
  swapcontext(&scheduler_, &fibers_[thread].context);
  sanitizer_.on_scheduler();
}

void ThreadBlock::switch_back() {
  Fiber& self = fibers_[current_];
  sanitizer_.to_scheduler(&self.fake_stack);
  swapcontext(&self.context, &scheduler_);
  sanitizer_.on_fiber(self.fake_stack);
}

void ThreadBlock::meet(Gathering& gathering, std::uint32_t members) {
  ++steps_;
  const std::uint64_t round = gathering.round;
  if (++gathering.arrived == members) {
    gathering.arrived = 0;
    ++gathering.round;
    return;
  }
  while (gathering.round == round) switch_back();
}

void ThreadBlock::prepare(std::uint32_t thread) {
  Fiber& fiber = fibers_[thread];
  fiber = {};
  Sanitizer::renew(stacks_[thread]);
  CHECK(getcontext(&fiber.context) == 0);
  fiber.context.uc_stack.ss_sp = stacks_[thread].bytes.data();
  fiber.context.uc_stack.ss_size = kStackBytes;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&fiber.context, reinterpret_cast<void (*)()>(&ThreadBlock::enter), 2,
              static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
  // makecontext() has set up the stack, so uc_stack is no longer needed. If it stayed,
  // AddressSanitizer would clear its state of the stack at each switch to the context.
  fiber.context.uc_stack = {};
}

void ThreadBlock::run(std::uint32_t block, std::uint32_t blocks) {
  block_ = block;
  blocks_ = blocks;
  shared_.fill(kPoison);
  for (std::uint32_t i = 0; i < kThreads; ++i) prepare(i);
  for (bool left = true; left;) {
    left = false;
    const std::uint64_t before = steps_;
    for (std::uint32_t i = 0; i < kThreads; ++i) {
      if (!fibers_[i].done) switch_to(i);
      left = left || !fibers_[i].done;
    }
    // No progress means that a thread has ended, or taken another branch, while others wait for it,
    // which is undefined on a GPU.
    CHECK(steps_ != before);
  }
}

template <class Combine>
std::uint32_t fold(const std::uint64_t* values, Combine combine) {
  auto out = static_cast<std::uint32_t>(values[0]);
  for (std::uint32_t i = 1; i < kWarp; ++i) {
    out = combine(out, static_cast<std::uint32_t>(values[i]), i);
  }
  return out;
}

}  // namespace

std::uint32_t Team::ballot(bool yes) const {
  const std::uint64_t* values = place_.meeting->exchange(place_.thread, yes ? 1 : 0);
  return fold(values,
              [](std::uint32_t all, std::uint32_t x, std::uint32_t i) { return all | x << i; });
}

std::uint32_t Team::greatest(std::uint32_t value) const {
  const std::uint64_t* values = place_.meeting->exchange(place_.thread, value);
  return fold(values,
              [](std::uint32_t a, std::uint32_t b, std::uint32_t) { return std::max(a, b); });
}

std::uint32_t Team::least(std::uint32_t value) const {
  const std::uint64_t* values = place_.meeting->exchange(place_.thread, value);
  return fold(values,
              [](std::uint32_t a, std::uint32_t b, std::uint32_t) { return std::min(a, b); });
}

void run_teams(const KernelLaunch& launch, void (*body)(const Team&, const void*),
               const void* argument) {
  const auto block = std::make_unique<ThreadBlock>(body, argument);
  for (std::uint32_t i = 0; i < launch.blocks; ++i) block->run(i, launch.blocks);
}

void check_launch(const KernelLaunch& launch) {
  CHECK(launch.threads == kThreads);
  CHECK(launch.blocks >= 1 && launch.blocks <= kMostBlocks);
}

}  // namespace holdfast::device
