// Run: one op in flight, the only interpreter of schedules. It posts what the dependencies allow
// and follows streams byte by byte; the links move the bytes.
// Thread: only the holder of the runtime.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/engine/execution.h"
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
  int priority = 0;                 // higher goes first
};

class Run final : public Execution {
 public:
  // `links[r]` is the link to rank r; it must outlive the run, as must `space`, which gets the
  // program's memory when the run ends.
  Run(Program program, const RunKey& key, const std::vector<Link*>& links,
      LoweringSpace* space = nullptr);
  ~Run() override;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void advance() override;
  bool touched() const override { return touched_; }
  bool finished() const override { return remaining_ == 0; }
  const Status& failure() const override { return failure_; }
  Rank failed_peer() const override { return failed_peer_; }
  // Peers of unfinished messages.
  std::vector<Rank> waited_for() const override;
  std::vector<HeldPiece> held() const override;
  EncodedBytes encoded() const override { return program_.encoded; }
  BufferPool::Buffer stop() override;

 private:
  bool advance_one(Instruction& instruction);
  bool advance_send(Instruction& instruction, std::uint64_t available);
  bool advance_recv(Instruction& instruction, std::uint64_t available);
  bool advance_local(Instruction& instruction, std::uint64_t available);
  bool advance_code(Instruction& instruction);
  void reduce(const Instruction& instruction, std::uint64_t count) const;
  std::uint64_t scale(const Instruction& instruction, std::uint64_t length) const;
  std::uint64_t available(const Instruction& instruction) const;
  std::uint64_t& frame_bytes(const Instruction& instruction) {
    return program_.frame_bytes[static_cast<std::size_t>(instruction.frame)];
  }
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
  LoweringSpace* space_;
  std::size_t remaining_ = 0;
  std::uint64_t encoded_ = 0;  // bytes encoded since the links had their turn
  bool touched_ = true;
  Status failure_;
  Rank failed_peer_{-1};
};

}  // namespace holdfast::comm
