// Flat exchange: the small-message path of one host. Every rank publishes its input once in memory
// that it owns and everybody maps; each reads what it needs and folds in rank order, the same fold
// as the "flat" schedule. Per op and rank: one copy in, one pass over the inputs, no message, no
// allocation. No rank ever writes another rank's memory, so a rank that dies leaves nothing torn
// behind.
//
// Two slots per rank alternate: an op ends only when all have published theirs, and who has
// published an op is done with the one before, so that nobody reads a slot any more when its turn
// comes again. The areas outlive a view: the next one counts on in the other pair of slots, so that
// ops of the last view that everybody had published can still be finished from its slots, those of
// a dead rank included. An op ends only when all have published, so that it ends for all or for
// none. Thread: only the holder of the runtime.
// Why: docs/decisions/0082-flat-slots-count-no-readers.md
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/engine/host_count.h"
#include "comm/engine/host_peer.h"
#include "comm/reduce/kernels.h"

namespace holdfast::comm {

// Input bytes per rank up to which reading everybody's input beats moving partial sums; and bytes
// of all ranks' inputs together.
inline constexpr std::uint64_t kFlatBytes = 32 * 1024;
inline constexpr std::uint64_t kFlatReadBytes = 256 * 1024;

// What only moves: bytes that a rank publishes, and gathers, up to which two copies cost less than
// looks into each other's memory, each of which waits for its owner's turn on a core.
inline constexpr std::uint64_t kFlatMoveBytes = 256 * 1024;
inline constexpr std::uint64_t kFlatGatherBytes = 1024 * 1024;

// Bytes that need no line of their own.
inline constexpr std::size_t kFlatFewBytes = 16;

// One rank's area; part of its HostArea.
struct FlatArea {
  // What is published, and all of it when it is little: it comes with the counter, in one line.
  struct Head {
    std::uint32_t signature;
    std::uint32_t bytes;
    std::byte few[kFlatFewBytes];
  };
  struct FlatSlot {
    alignas(64) std::byte data[kFlatMoveBytes];
  };
  // One view's counter and slots; views alternate.
  struct FlatHalf {
    alignas(64) std::atomic<std::uint64_t> posted;  // ops whose input is published
    Head heads[2];
    alignas(64) FlatSlot slots[2];
  };
  static_assert(offsetof(FlatHalf, slots) == 64);
  FlatHalf halves[2];
};

class FlatExchange {
 public:
  // `peers[r]`: rank r's area, own one included.
  // `epoch`: of the view; `done`: what its counter begins with.
  FlatExchange(Rank rank, Epoch epoch, std::vector<HostPeer> peers, std::uint64_t done = 0);

  // Whether this exchange carries the op: the same answer on every rank that makes the same call.
  static bool carries(const OpRequest& request, int size);

  // One op at a time, in the order of the communicator.
  void begin(const OpRequest& request, std::uint32_t signature);
  // The same op, whose request lies elsewhere now.
  void rebind(const OpRequest& request) { request_ = &request; }
  // Goes as far as it can; true when the op has ended.
  bool advance();
  bool moved() const { return moved_; }
  const Status& failure() const { return failure_; }
  std::vector<Rank> waited_for() const;

 private:
  enum class FlatStage : std::uint8_t { kBegun, kCollect, kDone, kLeftBehind };

  FlatArea::FlatHalf& area(Rank rank) const {
    return reinterpret_cast<FlatArea*>(peers_[index(rank)].segment->data())->halves[half_];
  }
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }
  int size() const { return static_cast<int>(peers_.size()); }
  void publish();
  bool reads(Rank rank) const;
  bool collected();
  void finish();
  bool was_left_behind() const;
  void fold(std::uint64_t offset, std::byte* out, std::uint64_t count) const;
  const FlatArea::Head& head(Rank rank) const { return area(rank).heads[op_ % 2]; }
  // What a rank has published.
  const std::byte* slot(Rank rank) const {
    const FlatArea::Head& from = head(rank);
    return from.bytes <= kFlatFewBytes ? from.few : area(rank).slots[op_ % 2].data;
  }

  Rank rank_;
  std::vector<HostPeer> peers_;
  std::size_t half_;
  std::uint64_t first_;
  std::uint64_t op_;
  const OpRequest* request_ = nullptr;
  std::uint32_t signature_ = 0;
  std::uint64_t input_bytes_ = 0;
  FlatStage stage_ = FlatStage::kDone;
  bool moved_ = false;
  Status failure_;
};

}  // namespace holdfast::comm
