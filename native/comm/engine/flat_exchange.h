// Flat exchange: the small-message path of one host. Every rank publishes its input once in memory
// that it owns and everybody maps; each reads what it needs and folds in rank order, the same fold
// as the "flat" schedule. Per op and rank: one copy in, one pass over the inputs, no message, no
// allocation. No rank ever writes another rank's memory, so a rank that dies leaves nothing torn
// behind.
//
// Two slots per rank alternate: a slot is written again only when every peer is done with the op
// before last. Thread: only the holder of the runtime.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "comm/engine/program.h"
#include "comm/transport/bell.h"
#include "comm/transport/segment.h"

namespace holdfast::comm {

// Input bytes per rank up to which reading everybody's input beats moving partial sums.
inline constexpr std::uint64_t kFlatBytes = 32 * 1024;

// Bytes of all ranks' inputs together up to which that holds.
inline constexpr std::uint64_t kFlatReadBytes = 256 * 1024;

// One rank's area.
struct FlatArea {
  struct Slot {
    std::uint32_t signature;
    std::uint32_t bytes;
    alignas(64) std::byte data[kFlatBytes];
  };
  alignas(64) std::atomic<std::uint64_t> posted;  // ops whose input is published
  std::atomic<std::uint64_t> read;                // ops that need nothing more from the others
  std::atomic<std::uint32_t> waits_for_room;      // sleeps until others have read
  alignas(64) Slot slots[2];
};

struct FlatPeer {
  Segment segment;  // of sizeof(FlatArea)
  Bell bell;
  std::function<void()> wake_by_socket;
};

class FlatExchange {
 public:
  // `peers[r]`: rank r's area, own one included.
  FlatExchange(Rank rank, std::vector<FlatPeer> peers) : rank_(rank), peers_(std::move(peers)) {}

  // Whether this exchange carries the op: the same answer on every rank that makes the same call.
  static bool carries(const OpRequest& request, int size);
  void unlink_own() { peers_[index(rank_)].segment.unlink(); }

  // One op at a time, in the order of the communicator.
  void begin(const OpRequest& request, std::uint32_t signature);
  // Goes as far as it can; true when the op has ended.
  bool advance();
  bool moved() const { return moved_; }
  const Status& failure() const { return failure_; }
  std::vector<Rank> waited_for() const;

 private:
  enum class Stage : std::uint8_t { kRoom, kCollect, kDone };

  FlatArea& area(Rank rank) const {
    return *reinterpret_cast<FlatArea*>(peers_[index(rank)].segment.data());
  }
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }
  int size() const { return static_cast<int>(peers_.size()); }
  bool has_room() const;
  void publish();
  bool needs(Rank rank) const;
  bool collected();
  void finish();
  void fold(std::uint64_t offset, std::byte* out, std::uint64_t count) const;
  const std::byte* slot(Rank rank) const { return area(rank).slots[op_ % 2].data; }
  void ring(FlatPeer& peer);

  Rank rank_;
  std::vector<FlatPeer> peers_;
  std::uint64_t op_ = 0;
  const OpRequest* request_ = nullptr;
  std::uint32_t signature_ = 0;
  std::uint64_t input_bytes_ = 0;
  Stage stage_ = Stage::kDone;
  bool moved_ = false;
  Status failure_;
};

}  // namespace holdfast::comm
