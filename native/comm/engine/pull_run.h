// Pull run: one op whose blocks only move. Every rank says where its blocks for the others lie, and
// each rank fetches the blocks for it straight into the caller's output. Each byte is copied once,
// by the rank that needs it; small blocks are left in the shared area instead, which saves the
// system call. An op's memory is exposed until its run stops or all ranks have fetched. A block
// counts as fetched only if it was still exposed after the read, so that a reader that is late by a
// view cannot take what the owner has written since for a result.
//
// Serves all_gather, broadcast, all_to_all(v), gather and scatter; blocks may have any size, or be
// empty.
// Thread: only the holder of the runtime.
// Why: docs/decisions/0034-moves-are-fetched-where-they-lie.md
#pragma once

#include <cstring>
#include <vector>

#include "comm/engine/slice_exchange.h"

namespace holdfast::comm {

class PullRun final : public Execution {
 public:
  // Whether it knows where this collective's blocks go; a collective that it was not told of leaves
  // shared memory to its schedule.
  static bool moves(Collective collective);

  PullRun(SliceExchange& exchange, const OpRequest& request, std::uint32_t signature,
          std::uint64_t number);
  ~PullRun() override { stop(); }

  void advance() override;
  bool touched() const override {
    return !finished_ && failure_.is_ok() && number_ == x_.ended_ &&
           (begun_ ? next_source() >= 0 : can_begin());
  }
  bool finished() const override { return finished_; }
  const Status& failure() const override { return failure_; }
  Rank failed_peer() const override { return failed_peer_; }
  std::vector<Rank> waited_for() const override;
  std::vector<HeldPiece> held() const override;
  BufferPool::Buffer stop() override;

 private:
  // A block that comes from one rank.
  struct PullSource {
    std::byte* to = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t done = 0;
    bool checked = false;
    bool ended = false;
    bool gone = false;  // its memory cannot be read any more
  };

  bool is(Collective c) const { return request_.collective == c; }
  bool is_root(int rank) const { return request_.root.value == rank; }
  std::uint64_t bytes_of(const Block& block) const {
    return block.count * request_.element_bytes();
  }
  // This rank's block for another rank; null: none.
  const Block* outgoing(int rank) const;
  // Where the block of another rank goes; null: that rank sends none.
  const Block* incoming(int rank) const;
  std::uint64_t mark() const { return x_.mark(number_); }
  bool can_begin() const;
  // A rank whose block can be fetched now, or -1.
  int next_source() const;
  void begin();
  // Writes the table of this rank's blocks; returns how many bytes it exposes.
  std::uint64_t expose();
  void ring(std::uint64_t bytes);
  void lend(SliceArea::Exposed& table) const;
  void fetch(int rank);
  void check(int rank, const SliceArea::Exposed& theirs);
  bool take(int rank, const SliceArea::Exposed& theirs, std::uint64_t bytes);

  SliceExchange& x_;
  const OpRequest& request_;
  const std::uint32_t signature_;
  const std::uint64_t number_;        // among the exchange's ops
  ShortList<PullSource, 8> sources_;  // by rank
  bool begun_ = false;
  bool finished_ = false;
  Status failure_;
  Rank failed_peer_{-1};
};

}  // namespace holdfast::comm
