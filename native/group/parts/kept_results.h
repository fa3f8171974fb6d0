// Kept results: ops that have ended here, but whose results others may still need: copies of small
// results, and the latest ops of the flat exchange, whose slots every member can still read. They
// are kept until all members are known to hold them. group/judgement.h decides what a loss makes of
// them.
//
// Thread: only the holder of the runtime.
#pragma once

#include <map>
#include <memory_resource>
#include <optional>
#include <vector>

#include "comm/call/call.h"
#include "comm/call/op_work.h"
#include "comm/engine/buffer_pool.h"
#include "group/repair.h"

namespace holdfast::group {

class KeptResults {
 public:
  struct Kept {
    comm::OpRequest request;  // its output is `memory`
    comm::BufferPool::Buffer memory;
    Epoch completed_in;
    Fate fate;
  };

  // Copies the result, from which rank `self` can serve members that lack it.
  void keep(const comm::OpWork& work, const Fate& fate, Rank self);
  // The call has ended on the flat exchange, in that epoch.
  void note_flat_end(const comm::Call& call, Epoch epoch);
  // All members hold the results of all ops up to `through`.
  void on_stable(OpSeq through);
  void forget(OpSeq sequence) { kept_.erase(sequence.value); }
  void clear();

  Kept* find(OpSeq sequence);
  // Nothing: the op has not ended on the flat exchange, or long ago.
  const comm::Call* flat_end(OpSeq sequence) const;
  // The first op of which there is a copy.
  std::optional<OpSeq> first() const;
  // The oldest op that report() tells of.
  std::optional<OpSeq> oldest() const;
  // Adds what this member reports of them when a view ends.
  void report(std::vector<OpReport>& ops) const;

 private:
  struct FlatEnd {
    comm::Call call;
    Epoch epoch;
  };

  std::pmr::unsynchronized_pool_resource nodes_;      // of kept_
  std::pmr::map<std::uint64_t, Kept> kept_{&nodes_};  // by sequence
  comm::BufferPool pool_;
  std::vector<FlatEnd> flat_ends_;  // the latest two
};

}  // namespace holdfast::group
