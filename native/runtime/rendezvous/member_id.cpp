#include "runtime/rendezvous/member_id.h"

#include <unistd.h>

#include <random>

namespace holdfast::runtime {
namespace {

// Of a member's id: which of the nodes of a process it is.
constexpr int kNodeBits = 24;

}  // namespace

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

MemberId random_member() {
  static const std::uint64_t drawn = random_number();
  // A child that was forked before its parent had any draws of its own is another process.
  const std::uint64_t process = drawn ^ (static_cast<std::uint64_t>(::getpid()) << kNodeBits);
  constexpr std::uint64_t kNode = (std::uint64_t{1} << kNodeBits) - 1;
  return {(process & ~kNode) | (random_number() & kNode)};
}

bool is_same_process(MemberId one, MemberId other) {
  return one.value >> kNodeBits == other.value >> kNodeBits;
}

}  // namespace holdfast::runtime
