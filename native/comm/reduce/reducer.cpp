#include "comm/reduce/reducer.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace holdfast::comm {
namespace {

// Bytes of an operand that is copied: small enough for the stack of any thread, large enough that
// a call of the operator costs little beside it.
constexpr std::uint64_t kRoomBytes = 8 * 1024;
// As malloc() aligns; no element of C needs more.
constexpr std::uint64_t kMostAlignment = 16;

class UserFold {
 public:
  explicit UserFold(const UserOp& user)
      : user_(user),
        bytes_(user.element_bytes),
        alignment_(std::min(bytes_ & (~bytes_ + 1), kMostAlignment)) {
    if (bytes_ > kRoomBytes) heap_.resize(2 * room());
  }

  void run(std::byte* dst, const std::byte* lhs, const std::byte* rhs, std::uint64_t count) {
    const bool whole = dst != lhs && is_aligned(dst) && is_aligned(lhs);
    const std::uint64_t most = whole ? count : std::max<std::uint64_t>(1, kRoomBytes / bytes_);
    for (std::uint64_t at = 0; at < count; at += most) {
      const std::uint64_t n = std::min(most, count - at);
      fold(dst + at * bytes_, lhs + at * bytes_, rhs + at * bytes_, n);
    }
  }

 private:
  bool is_aligned(const std::byte* at) const {
    return reinterpret_cast<std::uintptr_t>(at) % alignment_ == 0;
  }
  std::size_t room() const {
    const std::uint64_t bytes = std::max(bytes_, kRoomBytes);
    return (bytes + kMostAlignment - 1) / kMostAlignment * kMostAlignment;
  }
  std::byte* place(std::size_t i) { return (heap_.empty() ? stack_ : heap_.data()) + i * room(); }

  // The result is made in dst, or beside it where dst is the left operand.
  void fold(std::byte* dst, const std::byte* lhs, const std::byte* rhs, std::uint64_t count) {
    const std::uint64_t bytes = count * bytes_;
    const bool in_place = dst != lhs && is_aligned(dst);
    std::byte* result = in_place ? dst : place(0);
    if (result != rhs) std::memcpy(result, rhs, bytes);
    if (!is_aligned(lhs)) {
      std::memcpy(place(1), lhs, bytes);
      lhs = place(1);
    }
    user_.apply(lhs, result, count);
    if (!in_place) std::memcpy(dst, result, bytes);
  }

  const UserOp& user_;
  const std::uint64_t bytes_;
  const std::uint64_t alignment_;
  std::vector<std::byte> heap_;
  alignas(kMostAlignment) std::byte stack_[2 * kRoomBytes];
};

}  // namespace

void combine_by(const UserOp& user, void* dst, const void* lhs, const void* rhs,
                std::uint64_t count) {
  if (count == 0) return;
  UserFold(user).run(static_cast<std::byte*>(dst), static_cast<const std::byte*>(lhs),
                     static_cast<const std::byte*>(rhs), count);
}

}  // namespace holdfast::comm
