// Slice run: one op on the slice exchange. Three cursors say how many of its slices a rank has
// staged, reduced and pulled.
// Thread: only the holder of the runtime.
#pragma once

#include <algorithm>
#include <vector>

#include "base/copy.h"
#include "comm/engine/slice_exchange.h"
#include "comm/reduce/reducer.h"
#include "comm/reduce/weighing.h"

namespace holdfast::comm {

class SliceRun final : public Execution {
 public:
  SliceRun(SliceExchange& exchange, const OpRequest& request, std::uint32_t signature,
           std::uint64_t number);
  ~SliceRun() override { stop(); }

  void advance() override;
  bool touched() const override {
    return !finished_ && !left_behind_ && failure_.is_ok() && number_ == x_.ended_ &&
           (!begun_ || can_check() || can_stage() || can_reduce() || can_pull());
  }
  bool finished() const override { return finished_; }
  const Status& failure() const override { return failure_; }
  Rank failed_peer() const override { return failed_peer_; }
  std::vector<Rank> waited_for() const override;
  std::vector<HeldPiece> held() const override;
  BufferPool::Buffer stop() override;

 private:
  struct ElementSpan {
    std::uint64_t begin;  // elements
    std::uint64_t count;
  };

  bool is(Collective c) const { return request_.collective == c; }
  bool is_root() const { return request_.root.value == x_.rank_; }
  // Whether this rank's input goes into its slots, whether elements are combined, whether this rank
  // pulls results of others, and whether it has a result of its own.
  bool stages() const { return input_counts(request_.collective, is_root()); }
  bool folds() const { return reduces(request_.collective); }
  bool pulls() const {
    if (is(Collective::kReduceScatter)) return false;
    if (is(Collective::kReduce)) return is_root();
    return !is(Collective::kBroadcast) || !is_root();
  }
  bool keeps_own() const { return has_result(request_.collective, is_root()); }

  ElementSpan slice(std::uint64_t i) const {
    return {i * slice_, std::min(slice_, count_ - i * slice_)};
  }
  // A rank's part of a slice that is reduced in parts; its bounds are relative to the slice.
  ElementSpan share(const ElementSpan& of, int rank) const;
  std::byte* slot(int rank, std::uint64_t i) const {
    return x_.area(rank).slots[(x_.next_slice_ + i) % kSliceSlots];
  }
  std::byte* output(std::size_t block, std::uint64_t element) const {
    return request_.output[block].data + element * element_;
  }
  const std::byte* input(std::size_t block, std::uint64_t element) const {
    return request_.input[block].data + element * element_;
  }
  std::uint64_t through(std::uint64_t i) const { return x_.next_slice_ + i + 1; }

  // Whether no rank still needs what the slot of a slice held before.
  bool has_slot(std::uint64_t i) const {
    const std::uint64_t at = x_.next_slice_ + i;
    return at - x_.first_ < kSliceSlots ||
           x_.all_at(&SliceArea::SliceHalf::pulled, at - kSliceSlots + 1);
  }
  bool can_check() const { return !checked_ && x_.all_at(&SliceArea::SliceHalf::begun, mark()); }
  bool can_stage() const { return staged_ < slices_ && has_slot(staged_); }
  bool can_reduce() const {
    return checked_ && reduced_ < staged_ && (!lends_ || has_slot(reduced_)) &&
           x_.all_at(&SliceArea::SliceHalf::staged, through(reduced_));
  }
  bool can_pull() const;

  std::uint64_t mark() const { return x_.mark(number_); }
  void begin();
  void check();
  void borrow(int rank, const SliceArea::SliceCall& call);
  void stage();
  void reduce();
  void fold(const ElementSpan& whole, const ElementSpan& own, std::byte* to, std::byte* copy) const;
  template <class From>
  void fold_weighed(const From& from, std::byte* sum, std::uint64_t n) const;
  const std::byte* operand(int rank, const ElementSpan& whole, std::uint64_t element) const;
  void pull();
  bool was_left_behind();
  // Called after a read of others' inputs where they lie: whether the owner of one may have changed
  // it.
  bool was_withdrawn() const;
  bool has_withdrawn(int rank) const;
  void deliver(std::byte* to, const std::byte* from, std::uint64_t elements) const {
    if (to != from) copy_bytes(to, from, elements * element_);
  }
  void publish(std::atomic<std::uint64_t> SliceArea::SliceHalf::*counter, std::uint64_t done);

  SliceExchange& x_;
  const OpRequest& request_;
  const std::uint32_t signature_;
  const std::uint64_t number_;  // among the exchange's ops
  const std::uint64_t element_;
  const std::uint64_t blocks_;  // blocks of which a slice has a piece
  const std::uint64_t count_;   // elements of each
  std::uint64_t slice_;         // elements of a slice's piece
  std::uint64_t slices_;
  Reducer kernel_;
  DivideKernel divide_ = nullptr;
  WeightScales scales_;  // of a weighted average, once all ranks' calls are known

  bool begun_ = false;
  bool checked_ = false;
  bool finished_ = false;
  bool left_behind_ = false;
  bool lends_ = false;                       // others read this rank's input where it lies
  bool borrows_ = false;                     // this rank reads some other's input where it lies
  ShortList<const std::byte*, 8> borrowed_;  // by rank: where its input lies; null: in its slots
  std::uint64_t staged_ = 0;
  std::uint64_t reduced_ = 0;
  std::uint64_t pulled_ = 0;
  Status failure_;
  Rank failed_peer_{-1};
};

}  // namespace holdfast::comm
