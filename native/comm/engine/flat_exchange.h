// Flat exchange: the small-message path of one host. Every rank publishes its input once in memory
// that it owns and all ranks of the host map; each rank reads what it needs and folds in rank
// order, the same fold as the "flat" schedule. Per op and rank: one copy in, one pass over the
// inputs, no message, no allocation. No rank ever writes another rank's memory, so a rank that dies
// leaves nothing torn behind.
//
// Each rank alternates between two slots. An op ends only when all ranks have published their input
// to it, and a rank that has published an op has ended the one before, so no rank still reads a
// slot when it is written again. The areas outlive a view: the next view counts on in the other
// pair of slots, so that ops which all ranks had published in the last view can still be finished
// from its slots, those of a dead rank included. Since an op ends only when all ranks have
// published, it ends for all of them or for none.
// Thread: only the holder of the runtime.
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
#include "comm/reduce/weighing.h"

namespace holdfast::comm {

// Input bytes per rank up to which reading all ranks' inputs beats moving partial sums, and the
// limit for the bytes of all ranks' inputs together.
inline constexpr std::uint64_t kFlatBytes = 32 * 1024;
inline constexpr std::uint64_t kFlatReadBytes = 256 * 1024;

// For collectives that only move data: bytes that a rank publishes, and that it gathers, up to
// which two copies cost less than reading each other's memory, where each read waits until the
// owner runs on a core.
inline constexpr std::uint64_t kFlatMoveBytes = 256 * 1024;
inline constexpr std::uint64_t kFlatGatherBytes = 1024 * 1024;

// Inputs of up to this many bytes lie in the counter's cache line and need none of their own.
inline constexpr std::size_t kFlatFewBytes = 16;

// One rank's area; part of its HostArea.
struct FlatArea {
  // Describes the published input, and holds a small one whole: it then arrives with the counter in
  // one cache line.
  struct Head {
    std::uint32_t signature;
    std::uint32_t bytes;
    std::byte few[kFlatFewBytes];
  };
  struct FlatSlot {
    alignas(64) std::byte data[kFlatMoveBytes];
  };
  // One view's counter and slots; successive views alternate between the halves.
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
  // `peers[r]`: rank r's area, this rank's own included.
  // `epoch`: of the view; `done`: the count at which its counter begins.
  FlatExchange(Rank rank, Epoch epoch, std::vector<HostPeer> peers, std::uint64_t done = 0);

  // Whether this exchange carries the op: the same answer on every rank that makes the same call.
  static bool carries(const OpRequest& request, int size);

  // One op at a time, in the order of the communicator.
  void begin(const OpRequest& request, std::uint32_t signature);
  // Continues the same op with its request, which has moved in memory.
  void rebind(const OpRequest& request) { request_ = &request; }
  // Advances the op as far as possible; true when the op has ended.
  bool advance();
  bool moved() const { return moved_; }
  const Status& failure() const { return failure_; }
  std::vector<Rank> waited_for() const;

 private:
  enum class FlatStage : std::uint8_t { kBegun, kCollect, kDone, kLeftBehind };

  FlatArea::FlatHalf& area(Rank rank) const {
    return reinterpret_cast<FlatArea*>(peers_[index(rank)].area())->halves[half_];
  }
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }
  int size() const { return static_cast<int>(peers_.size()); }
  void publish();
  bool reads(Rank rank) const;
  bool collected();
  void finish();
  bool was_left_behind() const;
  void fold(std::uint64_t offset, std::byte* out, std::uint64_t count) const;
  void fold_weighed(std::uint64_t offset, std::byte* out, std::uint64_t count) const;
  void scan(int operands) const;
  const FlatArea::Head& head(Rank rank) const { return area(rank).heads[op_ % 2]; }
  // The input that a rank has published.
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
  std::uint64_t element_ = 1;      // bytes
  std::uint64_t input_bytes_ = 0;  // published; of a weight as well
  FlatStage stage_ = FlatStage::kDone;
  bool moved_ = false;
  Status failure_;
};

}  // namespace holdfast::comm
