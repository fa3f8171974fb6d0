// One op whose blocks only move: every rank says where its blocks for the others lie, and each
// fetches what is for it straight into the caller's output. One copy per byte, made by whoever
// needs it; blocks of little bytes are left in the shared area instead, which saves the system
// call. An op's memory is exposed until its run stops or all have fetched. A block counts as
// fetched only if it still was exposed afterwards, so that a reader that was late by a view cannot
// take what the owner has written since for a result.
//
// all_gather, broadcast, all_to_all(v), gather, scatter; blocks of any size, empty ones too.
// Thread: only the holder of the runtime.
// Why: docs/decisions/0034-moves-are-fetched-where-they-lie.md
#pragma once

#include <cstring>
#include <vector>

#include "comm/engine/slice_exchange.h"

namespace holdfast::comm {

class PullRun final : public Execution {
 public:
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
  // What comes from one rank.
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
    return block.count * dtype_bytes(request_.dtype);
  }
  // What this rank has for another one; null: nothing.
  const Block* outgoing(int rank) const;
  // Where another one's goes; null: nothing comes.
  const Block* incoming(int rank) const;
  std::uint64_t mark() const { return x_.mark(number_); }
  bool can_begin() const;
  // A rank that something can be fetched from now, or -1.
  int next_source() const;
  void begin();
  // Returns the bytes that are exposed.
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
