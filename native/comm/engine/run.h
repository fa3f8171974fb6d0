// Run: one op in flight, the only interpreter of schedules. It posts what its dependencies allow
// and follows streams byte by byte; what moves the bytes are the links. Thread: only the holder of
// the runtime.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/engine/program.h"
#include "comm/transport/link.h"

namespace holdfast::comm {

// Names the messages of one op.
struct RunKey {
  CommId comm;
  Epoch epoch;
  std::uint32_t op = 0;
  std::uint32_t signature = 0;
  std::uint32_t first_ordinal = 0;  // point to point: number of the message on its (peer, tag)
};

class Run {
 public:
  // `links[r]` is the link to rank r; it must outlive the run.
  Run(Program program, const RunKey& key, const std::vector<Link*>& links);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Does all that can be done now. Cheap when nothing was touched.
  void advance();
  bool touched() const { return touched_; }
  bool finished() const { return remaining_ == 0; }
  bool failed() const { return !failure_.is_ok(); }
  const Status& failure() const { return failure_; }
  Rank failed_peer() const { return failed_peer_; }

  // Whether an unfinished message to or from `rank` holds the run up.
  bool waits_for(Rank rank) const;
  std::vector<Rank> waited_for() const;
  // What has got its final value so far, piece by piece: a result is filled from the front of each
  // chunk, in whole elements.
  struct Held {
    const std::byte* data = nullptr;
    std::uint64_t bytes = 0;
  };
  std::vector<Held> held() const;
  // Takes every post back; afterwards no link refers to the op's memory.
  void cancel();
  BufferPool::Buffer take_scratch() { return std::move(program_.scratch); }

 private:
  bool advance_one(Instruction& instruction);
  bool advance_send(Instruction& instruction, std::uint64_t available);
  bool advance_recv(Instruction& instruction, std::uint64_t available);
  bool advance_local(Instruction& instruction, std::uint64_t available);
  std::uint64_t available(const Instruction& instruction) const;
  template <class P>
  bool follow(Instruction& instruction, const P& post);
  template <class P>
  void prepare(Instruction& instruction, P& post);
  Link& link(const Instruction& instruction) {
    return *links_[static_cast<std::size_t>(instruction.peer.value)];
  }

  Program program_;
  RunKey key_;
  const std::vector<Link*>& links_;
  std::vector<SendPost> sends_;
  std::vector<RecvPost> recvs_;
  std::size_t remaining_ = 0;
  bool touched_ = true;
  Status failure_;
  Rank failed_peer_{-1};
};

}  // namespace holdfast::comm
