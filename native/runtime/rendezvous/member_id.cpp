#include "runtime/rendezvous/member_id.h"

#include <unistd.h>

#include <random>

namespace holdfast::runtime {
namespace {

// Bits of a member's id that tell the nodes of one process apart.
constexpr int kNodeBits = 24;

}  // namespace

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

MemberId random_member() {
  static const std::uint64_t drawn = random_number();
  // A forked child inherits `drawn`, and is another process: its process id makes it different.
  const std::uint64_t process = drawn ^ (static_cast<std::uint64_t>(::getpid()) << kNodeBits);
  constexpr std::uint64_t kNode = (std::uint64_t{1} << kNodeBits) - 1;
  return {(process & ~kNode) | (random_number() & kNode)};
}

bool is_same_process(MemberId one, MemberId other) {
  return one.value >> kNodeBits == other.value >> kNodeBits;
}

}  // namespace holdfast::runtime
