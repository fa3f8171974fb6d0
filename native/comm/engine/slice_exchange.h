// Slice exchange: the path of one host for what is too large for the flat exchange, or not the same
// on all ranks. What only moves is fetched from where it lies (PullRun) if the system allows that.
// The rest goes through shared memory in slices that stay in the caches (SliceRun): each rank
// stages its input once in memory that it owns and everybody maps, reduces its share of every slice
// straight from all ranks' slots, in rank order, and leaves the result in its own slot for the
// others to pull. No rank ever writes another rank's memory, so a rank that dies leaves nothing
// torn behind; finals alone are written to the caller's output.
//
// Per rank, n ranks, S bytes of payload (of all blocks), beyond reading the input once and writing
// the output once:
//   all_reduce      (n-1)/n S staged, S/n reduced from n places and left for the others
//   reduce_scatter  (n-1)/n S staged, S/n reduced
//   all_gather      S/n staged
//   broadcast       S staged by the root, nothing by the others
// A message-wise ring moves the same bytes through n-1 hops, each of them a copy in and one out.
//
// A few slots per rank are used in turn: a slot is written again only when every peer has pulled
// what it needs of it. The areas outlive a view: the next one counts on in the other half, so that
// nobody overwrites what a member reads that has not yet heard of the new view. Ops go one after
// the other, in the communicator's order, in each of two lanes: what is small need not wait until
// what is large has gone through. Thread: only the holder of the runtime.
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
// Payload of an op that takes the lane for small ones.
inline constexpr std::uint64_t kSmallLaneBytes = 512 * 1024;
// Ranks whose blocks are fetched from where they lie.
inline constexpr int kMostPullers = 64;
// Of one rank to all others together: up to this they lie in the shared area instead.
inline constexpr std::uint64_t kInlineBytes = 4 * 1024;

// One rank's area; part of its HostArea.
struct SliceArea {
  struct SliceCall {
    std::uint64_t bytes;
    std::uint32_t signature;
    std::uint32_t arena;   // of the owner's pool, where others read its input; 0: in its slots
    std::uint64_t offset;  // there
  };
  // Where a rank's blocks for the others lie.
  struct Exposed {
    struct Entry {
      std::uint64_t address;  // in the owner's memory; inline: in data
      std::uint64_t bytes;
      std::uint64_t offset;  // in the arena, if it is in one
      std::uint32_t arena;
    };
    std::uint32_t signature;
    std::uint32_t is_inline;
    Entry blocks[kMostPullers];
    alignas(64) std::byte data[kInlineBytes];
  };
  // One view's counters and slots; views alternate. Counters only grow, over all ops of the view.
  struct SliceHalf {
    alignas(64) std::atomic<std::uint64_t> begun;    // ops whose call, or table, is written
    alignas(64) std::atomic<std::uint64_t> ended;    // ops that need nothing more from others
    std::atomic<std::uint64_t> withdrawn;            // the op whose memory is exposed no longer
    alignas(64) std::atomic<std::uint64_t> staged;   // slices whose input is in its slot
    alignas(64) std::atomic<std::uint64_t> reduced;  // slices whose share of the result is there
    alignas(64) std::atomic<std::uint64_t> pulled;   // slices that need nothing more from others
    alignas(64) SliceCall calls[2];
    Exposed exposed[2];
    alignas(4096) std::byte slots[kSliceSlots][kSliceBytes];
  };
  SliceHalf halves[2];
};

// By the op alone, and by what all ranks know of it.
SliceLane lane_of(const OpRequest& request);

// Whether the memory of all others can be read.
bool reach_each_other(const std::vector<HostPeer>& peers, Rank self);

class SliceExchange {
 public:
  // `peers[r]`: rank r's area, own one included. `slice_bytes`: at most kSliceBytes; the same on
  // all ranks. `epoch`: of the view; `done`: what its counters begin with.
  SliceExchange(Rank rank, Epoch epoch, std::vector<HostPeer> peers, std::uint64_t slice_bytes,
                SliceLane lane = SliceLane::kBulk, std::uint64_t done = 0);

  // Whether this exchange carries the op: the same answer on every rank that makes the same call.
  bool carries(const OpRequest& request) const;
  // Whether it does so faster than the flat exchange.
  bool beats_flat(const OpRequest& request) const;
  // Whether others read the caller's memory: it then stays as it is until make_round()'s end.
  // The same on every rank that makes the same call.
  bool exposes(const OpRequest& request) const;
  // The same of a reduction, whose input is read where it lies if this rank has it in its pool.
  bool lends(const OpRequest& request) const { return place_of(request).arena != 0; }

  // The next op; `request` must outlive it.
  std::unique_ptr<Execution> start(const OpRequest& request, std::uint32_t signature);
  // Right after an op's end here: ends when every rank holds its result.
  std::unique_ptr<Execution> make_round();

 private:
  friend class PullRun;
  friend class SliceRun;
  friend class SliceRound;

  SliceArea::SliceHalf& area(int rank) const;
  PoolDirectory& directory(int rank) const;
  PoolPlace place_of(const OpRequest& request) const;
  PoolPlace find_in_pool(const std::byte* data, std::uint64_t bytes) const;
  // A peer's memory, mapped; null where that cannot be done.
  const std::byte* map(int rank, const PoolPlace& place, std::uint64_t bytes) const;
  // Whether what was read of that rank's slots was this view's: asked after the read.
  bool is_still_here(int rank) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return reached(area(rank).begun, first_);
  }
  // Whether every other rank's counter has reached `value`.
  bool all_at(std::atomic<std::uint64_t> SliceArea::SliceHalf::*counter, std::uint64_t value) const;
  int size() const { return static_cast<int>(peers_.size()); }
  // What an op's counters reach: over all views, none is 0.
  std::uint64_t mark(std::uint64_t number) const { return first_ + number + 1; }
  // After this rank has counted on from `before`: wakes those who may wait for that. Waits are for
  // all others, so whoever does not come last wakes nobody, and no rank is woken for nothing.
  // Small ops, and few ranks, do better with everybody awake early.
  void ring_if_last(std::atomic<std::uint64_t> SliceArea::SliceHalf::*counter,
                    std::uint64_t before);
  // For what is awaited of this rank alone.
  void ring_all();
  void end_op(std::uint64_t number, std::uint64_t slices);

  std::unique_ptr<Recycler> recycler_ = std::make_unique<Recycler>();  // of the runs
  int rank_;
  std::vector<HostPeer> peers_;
  bool reaches_;  // all ranks can read each other's memory
  std::size_t lane_;
  std::size_t half_;
  std::uint64_t slice_bytes_;
  std::uint64_t started_ = 0;  // ops
  std::uint64_t ended_ = 0;    // ops that have gone through, here
  std::uint64_t first_;        // of all counters in this view
  std::uint64_t next_slice_;   // first of the op whose turn it is
};

}  // namespace holdfast::comm
