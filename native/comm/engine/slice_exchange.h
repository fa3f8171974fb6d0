// Slice exchange: the path of one host for ops that are too large for the flat exchange, or whose
// sizes differ by rank. Blocks that only move are fetched from where they lie (PullRun) if the
// system allows that. All other ops go through shared memory in slices that stay in the caches
// (SliceRun): each rank stages its input once in memory that it owns and all ranks of the host map,
// reduces its share of every slice straight from all ranks' slots, in rank order, and leaves the
// result in its own slot for the others to pull. No rank ever writes another rank's memory, so a
// rank that dies leaves nothing torn behind; only final values are written to the caller's output.
//
// Per rank, n ranks, S bytes of payload (of all blocks), beyond reading the input once and writing
// the output once:
//   all_reduce      (n-1)/n S staged, S/n reduced from n places and left for the others
//   reduce_scatter  (n-1)/n S staged, S/n reduced
//   all_gather      S/n staged
//   broadcast       S staged by the root, nothing by the others
// A ring of messages moves the same bytes through n-1 hops, each of which copies them in and out.
//
// Each rank uses a few slots in turn: a slot is written again only when every peer has pulled what
// it needs of it. The areas outlive a view: the next view counts on in the other half, so that no
// rank overwrites data which a member that has not yet heard of the new view still reads. Ops go
// one after the other, in the communicator's order, in each of two lanes: a small op need not wait
// for a large one.
// Thread: only the holder of the runtime.
// Why: docs/decisions/0033-large-ops-go-in-slices.md
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/engine/execution.h"
#include "comm/engine/host_count.h"
#include "comm/engine/host_peer.h"

namespace holdfast::comm {

inline constexpr std::uint64_t kSliceBytes = 256 * 1024;
inline constexpr std::uint64_t kSliceSlots = 4;
// The exchanges of a group's view, each with areas and an order of its own.
enum class SliceLane : std::uint8_t { kBulk, kSmall };
inline constexpr std::size_t kSliceLanes = 2;
// Most ranks whose blocks are fetched from where they lie.
inline constexpr int kMostPullers = 64;
// Bytes of one rank for all others together up to which its blocks lie in the shared area instead.
inline constexpr std::uint64_t kInlineBytes = 4 * 1024;

// One rank's area; part of its HostArea.
struct SliceArea {
  struct SliceCall {
    std::uint64_t bytes;
    std::uint32_t signature;
    std::uint32_t arena;   // of the owner's pool, where others read its input; 0: in its slots
    std::uint64_t offset;  // bytes, in the arena
    double weight;         // of a weighted average; else 0
  };
  // Where a rank's blocks for the others lie.
  struct Exposed {
    struct Entry {
      std::uint64_t address;  // in the owner's memory; inline: in data
      std::uint64_t bytes;
      std::uint64_t offset;  // bytes, in the arena, if it is in one
      std::uint32_t arena;
    };
    std::uint32_t signature;
    std::uint32_t is_inline;
    Entry blocks[kMostPullers];
    alignas(64) std::byte data[kInlineBytes];
  };
  // One view's counters and slots; successive views alternate between the halves. Counters only
  // grow, over all ops of the view.
  struct SliceHalf {
    alignas(64) std::atomic<std::uint64_t> begun;    // ops whose call, or table, is written
    alignas(64) std::atomic<std::uint64_t> ended;    // ops that need nothing more from others
    std::atomic<std::uint64_t> withdrawn;            // the last op no longer exposed
    alignas(64) std::atomic<std::uint64_t> staged;   // slices whose input is in its slot
    alignas(64) std::atomic<std::uint64_t> reduced;  // slices whose result share is in its slot
    alignas(64) std::atomic<std::uint64_t> pulled;   // slices that need nothing more from others
    alignas(64) SliceCall calls[2];
    Exposed exposed[2];
    alignas(4096) std::byte slots[kSliceSlots][kSliceBytes];
  };
  SliceHalf halves[2];
};

// Whether this rank can read the memory of all others.
bool reach_each_other(const std::vector<HostPeer>& peers, Rank self);

class SliceExchange {
 public:
  // `peers[r]`: rank r's area, this rank's own included. `slice_bytes`: at most kSliceBytes; the
  // same on all ranks. `epoch`: of the view; `done`: the count at which its counters begin.
  SliceExchange(Rank rank, Epoch epoch, std::vector<HostPeer> peers, std::uint64_t slice_bytes,
                SliceLane lane = SliceLane::kBulk, std::uint64_t done = 0);

  // Whether such an exchange can carry the op: the same answer on every rank that makes the same
  // call. `reaches`: all ranks can read each other's memory.
  static bool carries(const OpRequest& request, int size, bool reaches);
  // Whether others read the caller's memory, which must then not change until make_round() has
  // ended: the same answer on every rank that makes the same call.
  static bool exposes(Collective collective, int size, bool reaches);
  bool exposes(const OpRequest& request) const {
    return exposes(request.collective, size(), reaches_);
  }
  bool reaches() const { return reaches_; }
  // Whether a reduction's input is read where it lies, since this rank has it in its pool. That is
  // this rank's affair, and no part of a route.
  bool lends(const OpRequest& request) const { return place_of(request).arena != 0; }

  // Starts the next op; `request` must outlive it.
  std::unique_ptr<Execution> start(const OpRequest& request, std::uint32_t signature);
  // To be called right after an op has ended on this rank: the round ends when every rank holds the
  // op's result.
  std::unique_ptr<Execution> make_round();

 private:
  friend class PullRun;
  friend class SliceRun;
  friend class SliceRound;

  SliceArea::SliceHalf& area(int rank) const;
  PoolDirectory& directory(int rank) const;
  PoolPlace place_of(const OpRequest& request) const;
  PoolPlace find_in_pool(const std::byte* data, std::uint64_t bytes) const;
  // A peer's memory, mapped here; null where it cannot be mapped.
  const std::byte* map(int rank, const PoolPlace& place, std::uint64_t bytes) const;
  // Whether data that was read from that rank's slots belongs to this view; called after the read.
  bool is_still_here(int rank) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return reached(area(rank).begun, first_);
  }
  // Whether every other rank's counter has reached `value`.
  bool all_at(std::atomic<std::uint64_t> SliceArea::SliceHalf::*counter, std::uint64_t value) const;
  int size() const { return static_cast<int>(peers_.size()); }
  // The value that counters reach with op `number`; it is never 0, in any view.
  std::uint64_t mark(std::uint64_t number) const { return first_ + number + 1; }
  // Called after this rank's counter has gone on from `before`: wakes the ranks that may wait for
  // it. Ranks wait for all others, so a rank that is not the last to count wakes none, and no rank
  // is woken for nothing. With small ops or few ranks all are woken early instead, which is faster.
  void ring_if_last(std::atomic<std::uint64_t> SliceArea::SliceHalf::*counter,
                    std::uint64_t before);
  // Wakes all peers, for progress that they await from this rank alone.
  void ring_all();
  void end_op(std::uint64_t number, std::uint64_t slices);

  std::unique_ptr<Recycler> recycler_ = std::make_unique<Recycler>();  // memory of the runs
  int rank_;
  std::vector<HostPeer> peers_;
  bool reaches_;  // all ranks can read each other's memory
  std::size_t lane_;
  std::size_t half_;
  std::uint64_t slice_bytes_;
  std::uint64_t started_ = 0;  // ops
  std::uint64_t ended_ = 0;    // ops that have ended on this rank
  std::uint64_t first_;        // value at which all counters of this view begin
  std::uint64_t next_slice_;   // first slice of the op whose turn it is
};

}  // namespace holdfast::comm
