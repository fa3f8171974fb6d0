// Credit: how far a sender may be ahead of its peer. Small messages go out unasked, and the peer
// keeps those that it has not asked for yet. To bound what the peer keeps, each message costs
// credit from when it is posted until it has left the peer's memory. The peer returns credit in
// lumps, so steady traffic needs only a frame now and then.
//
// Without credit a small message waits as a large one does: the sender announces it, and the
// receiver grants it once its receive is posted. So a message that no receive asks for blocks no
// other, in whatever order messages are asked for. This works even where a side keeps none of the
// other's notices (announces, asks and grants), so each side forgets those beyond a limit:
//
// Each side sends a notice when it posts, and the later of the two finds the other. Let a message
// be posted at both ends. If the receive was posted before the sender's kAsk came, the ask finds
// the receive and is answered. Otherwise the ask comes first, and is kept or forgotten. If it is
// kept, the receive finds it and answers. If it was forgotten, the session knows that it forgets
// asks, and a receive that finds none answers unasked: the answer follows the ask, so it finds the
// send. A forgotten grant of a large message is replaced in the same way: a sender that forgets
// grants sends kAsk instead of kAnnounce. A receive that names no sender waits for no key, but
// looks for some: where announces are forgotten it tells its peers which keys it looks for, and
// announces of those are kept.
// Why: docs/decisions/0123-eager-messages-have-credit.md
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::comm {

// The most that one side of a link keeps of the other's messages and notices.
struct EarlyLimits {
  std::uint64_t bytes = 256ULL << 20;  // of messages, plus kEarlyOverhead for each
  std::size_t notices = 1U << 16;      // announces, and as many grants
};
// Bytes charged for each message beside its payload; more than keeping one costs.
inline constexpr std::uint64_t kEarlyOverhead = 256;

constexpr std::uint64_t early_cost(std::uint64_t payload_bytes) {
  return payload_bytes + kEarlyOverhead;
}

// The sender's side of credit: what is left of it.
class Credit {
 public:
  explicit Credit(std::uint64_t limit = EarlyLimits().bytes) : left_(limit), limit_(limit) {}

  bool take(std::uint64_t cost) {
    if (cost > left_) return false;
    left_ -= cost;
    return true;
  }
  // Restores the full credit.
  void restart() { left_ = limit_; }
  // False: `cost` is more than was taken.
  bool give_back(std::uint64_t cost) {
    if (cost > limit_ - left_) return false;
    left_ += cost;
    return true;
  }

 private:
  std::uint64_t left_;
  std::uint64_t limit_;
};

// The receiver's side of credit: what it has not returned yet.
class Debt {
 public:
  explicit Debt(std::uint64_t limit = EarlyLimits().bytes) : lump_(limit / 4) {}

  // How much credit is to be returned now; mostly 0.
  std::uint64_t add(std::uint64_t cost) {
    due_ += cost;
    if (due_ < lump_) return 0;
    const std::uint64_t lump = due_;
    due_ = 0;
    return lump;
  }

 private:
  std::uint64_t lump_;
  std::uint64_t due_ = 0;
};

}  // namespace holdfast::comm
