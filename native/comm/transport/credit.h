// Credit: how far a sender may be ahead of its peer. Small messages go out unasked, and the peer
// keeps those that it has not asked for yet; so that what it keeps is bounded, each costs credit
// from when it is posted until it has left the peer's memory. The peer returns credit in lumps:
// where messages come and go, that is a frame now and then.
//
// Without credit a message waits as a large one does: the sender tells of it, and the receiver
// grants it once its receive is posted. So what nobody asks for blocks nothing, in whatever order
// messages are asked for. Nothing that a side keeps of the other's notices is needed for that, and
// what is beyond a limit is forgotten:
//
// Each side speaks when it posts, and the later of the two finds the other. Let a message be posted
// at both ends. If the receive was posted before the sender's kAsk came, that finds it and is
// answered. Else it comes before, and is kept, or forgotten. Where it is kept the receive finds it
// and answers; where it was forgotten the session knows that it forgets, and a receive that finds
// nothing answers unasked: its answer is behind the ask, so it finds the send. A grant of a large
// message that was forgotten is replaced likewise: who forgets grants asks, instead of announcing.
// A receive that names no sender waits for no key, it looks for some: where announces are forgotten
// it tells its peers which, and what it looks for is kept.
// Why: docs/decisions/0123-eager-messages-have-credit.md
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::comm {

// What one side of a link keeps of the other's at most.
struct EarlyLimits {
  std::uint64_t bytes = 256ULL << 20;  // of messages, with kEarlyOverhead for each
  std::size_t notices = 1U << 16;      // announces, and as many grants
};
// More than it costs to keep a message beside its bytes.
inline constexpr std::uint64_t kEarlyOverhead = 256;

constexpr std::uint64_t early_cost(std::uint64_t payload_bytes) {
  return payload_bytes + kEarlyOverhead;
}

// The sender's side.
class Credit {
 public:
  explicit Credit(std::uint64_t limit = EarlyLimits().bytes) : left_(limit), limit_(limit) {}

  bool take(std::uint64_t cost) {
    if (cost > left_) return false;
    left_ -= cost;
    return true;
  }
  // As at first.
  void restart() { left_ = limit_; }
  // False: more than was taken.
  bool give_back(std::uint64_t cost) {
    if (cost > limit_ - left_) return false;
    left_ += cost;
    return true;
  }

 private:
  std::uint64_t left_;
  std::uint64_t limit_;
};

// The receiver's: what it has not returned yet.
class Debt {
 public:
  explicit Debt(std::uint64_t limit = EarlyLimits().bytes) : lump_(limit / 4) {}

  // What is to be returned now, mostly nothing.
  std::uint64_t add(std::uint64_t cost) {
    owed_ += cost;
    if (owed_ < lump_) return 0;
    const std::uint64_t lump = owed_;
    owed_ = 0;
    return lump;
  }

 private:
  std::uint64_t lump_;
  std::uint64_t owed_ = 0;
};

}  // namespace holdfast::comm
