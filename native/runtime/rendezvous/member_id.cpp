#include "runtime/rendezvous/member_id.h"

#include <unistd.h>

#include <atomic>
#include <random>

namespace holdfast::runtime {
namespace {

// Bits of a member's id that tell the nodes of one process apart.
constexpr int kNodeBits = 24;
// Any two of a process's generations differ in the bits that tell processes apart.
constexpr std::uint64_t kGeneration = 0x9e3779b97f;

std::atomic<std::uint64_t>& generation() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

}  // namespace

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

MemberId random_member() {
  static const std::uint64_t drawn = random_number();
  // A forked child inherits `drawn`, and is another process: its process id makes it different.
  // Relaxed: a node that is made meanwhile may be of either generation.
  const std::uint64_t which = generation().load(std::memory_order_relaxed) * kGeneration;
  const auto child = static_cast<std::uint64_t>(::getpid());
  const std::uint64_t process = drawn ^ ((child ^ which) << kNodeBits);
  constexpr std::uint64_t kNode = (std::uint64_t{1} << kNodeBits) - 1;
  return {(process & ~kNode) | (random_number() & kNode)};
}

void begin_anew() { generation().fetch_add(1, std::memory_order_relaxed); }

bool is_same_process(MemberId one, MemberId other) {
  return one.value >> kNodeBits == other.value >> kNodeBits;
}

}  // namespace holdfast::runtime
