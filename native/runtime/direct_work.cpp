#include "runtime/direct_work.h"

#include <algorithm>
#include <numeric>

#include "comm/call.h"
#include "comm/request_check.h"
#include "runtime/direct.h"
#include "runtime/staged.h"

namespace holdfast::runtime {

using comm::Block;
using comm::Collective;
using comm::OpRequest;
using device::Cu;
using device::CuEvent;
using device::Device;
using device::DevicePointer;

DirectWork::DirectWork(std::shared_ptr<Staged> staged, Direct& direct,
                       const comm::Communicator& group, const OpRequest& request,
                       Direct::Extra extra, std::shared_ptr<comm::PathAgreement> agreement)
    : RowWork(std::move(staged), request, group.rank(),
              1 + shape_of(request, group.rank(), group.size()).words()),
      direct_(direct),
      shape_(shape_of(request, group.rank(), group.size())),
      group_(group.name()),
      trial_(extra.trial),
      agreement_(std::move(agreement)),
      cards_(static_cast<std::size_t>(group.size())) {
  take_packed(std::move(extra.packed));
}

DirectWork::~DirectWork() = default;

std::uint64_t DirectWork::all_of(const std::vector<std::uint64_t>& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0});
}

OpRequest DirectWork::step_request(std::size_t step) {
  OpRequest request;
  if (step > 0) {
    const auto bytes = [](std::uint32_t& word) { return reinterpret_cast<std::byte*>(&word); };
    request.collective = Collective::kAllReduce;
    request.dtype = DType::kU32;
    request.op = ReduceOp::kBand;
    request.input = {{bytes(word_in_.at(step - 1)), 1}};
    request.output = {{bytes(word_out_.at(step - 1)), 1}};
    return request;
  }
  request.collective = Collective::kAllGather;
  request.dtype = DType::kU8;
  request.on_device = true;
  request.stands_for = std::make_shared<const comm::Call>(comm::call_of(request_, {}));
  request.input = {{reinterpret_cast<std::byte*>(&card_), sizeof card_}};
  for (DirectCard& card : cards_) {
    request.output.push_back({reinterpret_cast<std::byte*>(&card), sizeof card});
  }
  return request;
}

void DirectWork::on_step_ended(std::size_t step, const comm::Outcome& outcome) {
  if (step == 0) {
    on_where(outcome);
  } else {
    on_word(step - 1, outcome);
  }
}

void DirectWork::on_where(const comm::Outcome& outcome) {
  merge_outcome(outcome, false);
  ranks_ = outcome.contributors;
  const auto there = [this](Rank rank) {
    return std::find(ranks_.begin(), ranks_.end(), rank) != ranks_.end();
  };
  bool able = true;
  bool ready = request_.collective != Collective::kBroadcast || there(request_.root);
  for (int r = 0; r < shape_.size; ++r) {
    const DirectCard& card = cards_[static_cast<std::size_t>(r)];
    direct_.peers().seat(group_, r, there({r}) ? card.owner : 0);
    if (!there({r})) continue;
    able = able && card.able != 0;
    ready = ready && card.ready != 0;
  }
  if (able && ready) return begin_phase(0);
  conclude(true, able);
  stage();
}

void DirectWork::on_word(std::size_t word, const comm::Outcome& outcome) {
  const bool whole = outcome.contributors == ranks_;
  merge_outcome(outcome, !whole);
  const std::uint32_t said = word_out_.at(word);
  conclude(whole, (said & kReached) != 0);
  if (!whole || said != (kReached | kRead)) return stage();
  if (word + 1 < words()) return begin_phase(word + 1);
  // The result is this rank's, and nobody reads its memory any more.
  succeed(move_result());
}

void DirectWork::conclude(bool whole, bool reached) {
  using Verdict = comm::PathAgreement::Verdict;
  if (trial_ == 0) return;
  const Verdict found = reached ? Verdict::kDirect : Verdict::kStaged;
  agreement_->conclude(trial_, whole ? found : Verdict::kAgain);
}

Status DirectWork::move_result() {
  const Device::Current current(device());
  TRY(current.status());
  for (std::size_t i = 0; result_ && i < shape_.output.size(); ++i) {
    const Block& block = request_.output[i];
    if (block.count == 0) continue;
    TRY(device().copy(address(block.data), result_at(i), shape_.output[i], staged_->down()));
  }
  return Status::ok();
}

std::optional<Status> DirectWork::look_at_step(std::size_t step) {
  if (step == 0) return look_at(*arrived_);
  std::optional<CuEvent> phase;
  {
    const std::lock_guard lock(mutex_);
    if (!enqueued_.at(step - 1)) return std::nullopt;
    phase = phases_.at(step - 1);
  }
  if (!phase) return Status::ok();
  const std::optional<Status> ended = look_at(*phase);
  // All ranks are to know.
  if (ended && !ended->is_ok()) word_in_.at(step - 1) = kReached;
  return ended ? std::optional(Status::ok()) : std::nullopt;
}

}  // namespace holdfast::runtime
