// Replicated: small ops whose results differ by rank, carried by one whose result all ranks hold.
//
// A reduce_scatter or an all_to_all may only end where all ranks are known to hold their results,
// for nobody else could serve them: a round of messages, which is half the time of a small one. As
// an all_reduce, or an all_gather of all that goes in, every rank holds everybody's result and
// keeps it a while (view_communicator.h), so that no round is needed; repair sees nothing but the
// carrying op. Moves more bytes: worth it where messages cost more than what is in them.
// Why: docs/decisions/0075-small-ops-are-carried.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/communicator.h"

namespace holdfast::comm {

// What the carrying op works on, and where its result goes.
struct Replicated {
  BlockList output;               // the caller's
  std::uint64_t own_element = 0;  // where this rank's part begins in what each rank gives
  std::uint64_t bytes = 0;        // payload_bytes() of what was called
  std::vector<std::byte> data;    // what the carrying op reads and writes
};

// The request of the op that carries it, as the route says (comm/plan/route.h, carried_as()), in
// `carrier`'s memory. Reads the input of rank `self`.
OpRequest replicated_by(OpRequest request, Replicated& replicated, Rank self, int size);
// Copies this rank's part of the result to the caller's memory.
void deliver(const OpRequest& sent);

// payload_bytes() of what was called.
std::uint64_t called_bytes(const OpRequest& request);

// Memory of carriers, for the next ones. Any thread.
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
