// Replicated: small ops whose results differ by rank, sent as one op whose result all ranks hold.
//
// A reduce_scatter or an all_to_all may only end where all ranks are known to hold their results,
// for no other rank could serve them: that takes a round of messages, which is half the time of a
// small op. As an all_reduce, or an all_gather of all inputs, every rank holds the results of all
// ranks and keeps them a while (view_communicator.h), so that no round is needed; repair sees only
// the replicated op. It moves more bytes: worth it where messages cost more than their bytes.
// Why: docs/decisions/0075-small-ops-are-carried.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/communicator.h"

namespace holdfast::comm {

// What the replicated op works on, and where its result goes.
struct Replicated {
  BlockList output;               // the caller's
  std::uint64_t own_element = 0;  // where this rank's part begins in each rank's contribution
  std::uint64_t bytes = 0;        // payload_bytes() of what was called
  std::vector<std::byte> data;    // what the replicated op reads and writes
};

// The request of the replicated op that the route chooses (comm/plan/route.h, replicated_as()), in
// the memory of `replicated`. Reads the input of rank `self`.
OpRequest replicated_by(OpRequest request, Replicated& replicated, Rank self, int size);
// Copies this rank's part of the result to the caller's memory.
void deliver(const OpRequest& sent);

// payload_bytes() of what was called.
std::uint64_t called_bytes(const OpRequest& request);

// Memory of ended replicated ops, reused. Any thread.
class ReplicatedPool {
 public:
  Replicated& take();
  void give(Replicated& replicated);

 private:
  std::mutex mutex_;  // guards both
  std::vector<std::unique_ptr<Replicated>> all_;
  std::vector<Replicated*> idle_;
};

}  // namespace holdfast::comm
