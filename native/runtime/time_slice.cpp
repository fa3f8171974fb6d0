#include "runtime/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace holdfast::runtime {
namespace {

// The first version of the kernel's struct sched_attr, which old C libraries do not have.
struct Attributes {
  std::uint32_t size = sizeof(Attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  // the slice, for an ordinary thread
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(Attributes) == 48);

constexpr int kThisThread = 0;

// Whether the thread has this slice already, or has been refused it.
bool is_settled(Duration slice) {
  // The slice belongs to the thread, not to a runtime: the thread keeps it from one runtime to the
  // next, and a forked child inherits both.
  thread_local Duration asked{};
  return std::exchange(asked, slice) == slice;
}

}  // namespace

void ask_for_time_slice(Duration slice) {
  if (is_settled(slice)) return;
  Attributes attributes;
  if (::syscall(SYS_sched_getattr, kThisThread, &attributes, sizeof attributes, 0) != 0) return;
  const auto wanted = static_cast<std::uint64_t>(slice.count());
  const bool has_it = attributes.runtime_ns != 0 && attributes.runtime_ns <= wanted;
  if (attributes.policy != SCHED_OTHER || has_it) return;
  attributes.size = sizeof attributes;
  attributes.runtime_ns = wanted;
  // A refusal leaves the thread as it was, which only makes it slower beside other busy processes.
  static_cast<void>(::syscall(SYS_sched_setattr, kThisThread, &attributes, 0));
}

}  // namespace holdfast::runtime
