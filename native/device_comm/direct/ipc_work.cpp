#include "device_comm/direct/ipc_work.h"

#include <algorithm>
#include <utility>

#include "comm/call/call.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

using comm::Block;
using comm::Collective;
using comm::OpRequest;
using device::CuEvent;
using device::Device;
using device::DevicePointer;

IpcWork::IpcWork(std::shared_ptr<Staged> staged, Direct& direct, const comm::Communicator& group,
                 const OpRequest& request, Direct::DirectCall extra, const IpcChain& row)
    : ChainedWork(std::move(staged), request, group.rank(), row.steps),
      direct_(direct),
      shape_(shape_of(request, group.rank(), group.size())),
      cards_(static_cast<std::size_t>(group.size())),
      chain_(row),
      group_(group.name()),
      trial_(extra.trial),
      agreement_(std::move(extra.agreement)),
      phases_(row.steps) {
  take_packed(std::move(extra.packed));
}

IpcWork::~IpcWork() = default;

std::uint32_t& IpcWork::vote(std::array<std::uint32_t, kMostVotes>& votes, std::size_t step) const {
  return votes.at(step + chain_.votes - chain_.steps);
}

OpRequest IpcWork::step_request(std::size_t step) {
  OpRequest request;
  request.caller = request_.caller;
  if (is_vote(step)) {
    const auto bytes = [](std::uint32_t& vote) { return reinterpret_cast<std::byte*>(&vote); };
    request.collective = Collective::kAllReduce;
    request.dtype = DType::kU32;
    request.op = ReduceOp::kBand;
    request.input = {{bytes(vote(vote_in_, step)), 1}};
    request.output = {{bytes(vote(vote_out_, step)), 1}};
    return request;
  }
  request.collective = Collective::kAllGather;
  request.dtype = DType::kU8;
  request.how.on_device = true;
  request.step.stands_for = std::make_shared<const comm::Call>(comm::call_of(request_, {}));
  request.step.way = comm::Way::kDirect;
  request.input = {{reinterpret_cast<std::byte*>(&card_), sizeof card_}};
  for (PeerCard& card : cards_) {
    request.output.push_back({reinterpret_cast<std::byte*>(&card), sizeof card});
  }
  return request;
}

std::optional<Status> IpcWork::look_at_step(std::size_t step) {
  if (step == 0) return look_at(*arrived_);
  std::optional<CuEvent> end;
  {
    const std::lock_guard lock(mutex_);
    if (!phases_.at(step - 1).enqueued) return std::nullopt;
    end = phases_.at(step - 1).end;
  }
  const std::optional<Status> ended = end ? look_at(*end) : Status::ok();
  if (!ended) return std::nullopt;
  // All ranks are to know of it.
  if (!ended->is_ok()) so_far_ &= ~kWell;
  if (is_vote(step)) vote(vote_in_, step) = so_far_;
  return Status::ok();
}

void IpcWork::on_step_ended(std::size_t step, const comm::Outcome& outcome) {
  if (step == 0) return on_where(outcome);
  const bool whole = outcome.contributors == ranks_;
  merge_outcome(outcome, !whole);
  const std::uint32_t said = is_vote(step) ? vote(vote_out_, step) : kReached | kWell;
  if (is_vote(step) || !whole) conclude(whole, (said & kReached) != 0);
  if (!whole || said != (kReached | kWell)) return stage();
  if (step + 1 < chain_.steps) return begin_phase(step);
  // The result is this rank's, and no other rank reads its memory any more.
  succeed(move_result());
}

void IpcWork::on_where(const comm::Outcome& outcome) {
  merge_outcome(outcome, false);
  ranks_ = outcome.contributors;
  bool able = true;
  bool ready = true;
  for (int r = 0; r < shape_.size; ++r) {
    const PeerCard& card = cards_[static_cast<std::size_t>(r)];
    const bool there = std::find(ranks_.begin(), ranks_.end(), Rank{r}) != ranks_.end();
    direct_.peers().seat(group_, r, there ? card.owner : 0);
    if (!there) continue;
    able = able && card.able != 0;
    ready = ready && card.ready != 0;
  }
  if (able && ready && plan()) return begin_phase(0);
  conclude(true, able);
  stage();
}

void IpcWork::conclude(bool whole, bool reached) {
  using Verdict = comm::PathAgreement::PathVerdict;
  if (trial_ == 0) return;
  const Verdict found = reached ? Verdict::kDirect : Verdict::kStaged;
  agreement_->conclude(trial_, whole ? found : Verdict::kAgain);
}

void IpcWork::begin_phase(std::size_t number) {
  const Device::Current current(device());
  // After trouble the ops go on, so that all ranks learn of it at the same op.
  if (so_far_ == (kReached | kWell)) {
    bool reached = false;
    const Status ran = current.status().is_ok() ? run_phase(number, reached) : current.status();
    so_far_ = (reached ? kReached : 0) | (ran.is_ok() ? kWell : 0);
  }
  // What was enqueued ends before the others are told, well or not.
  auto event = device().take_event();
  const bool recorded =
      event.is_ok() &&
      device().driver().event_record(event.value(), staged_->down()) == device::Cu::kSuccess;
  if (!recorded) so_far_ &= ~kWell;
  {
    const std::lock_guard lock(mutex_);
    phases_.at(number).enqueued = true;
    if (event.is_ok()) phases_.at(number).end = event.value();
  }
  // A lost device calls no callback.
  if (!recorded || !staged_->wake_behind(staged_->down()).is_ok()) staged_->wake_now();
}

Result<DevicePointer> IpcWork::peer(Rank rank, bool of_result) {
  if (rank == shape_.rank) return of_result ? result_.value_or(result_run_) : input_;
  const PeerCard& card = cards_[static_cast<std::size_t>(rank.value)];
  const device::PeerPiece& piece = of_result ? card.result : card.input;
  auto opened = direct_.peers().open(card.owner, piece);
  if (opened.is_ok()) opened_.emplace_back(card.owner, piece.buffer);
  return opened;
}

DevicePointer IpcWork::result_at(std::size_t block) const {
  if (!result_) return address(request_.output[block].data);
  DevicePointer at = *result_;
  for (std::size_t b = 0; b < block; ++b) at += shape_.output[b];
  return at;
}

Status IpcWork::move_result() {
  const Device::Current current(device());
  TRY(current.status());
  for (std::size_t i = 0; result_ && i < shape_.output.size(); ++i) {
    const Block& block = request_.output[i];
    if (block.count == 0) continue;
    TRY(device().copy(address(block.data), result_at(i), shape_.output[i], staged_->down()));
  }
  return Status::ok();
}

void IpcWork::give_memory(bool idle) {
  std::vector<CuEvent> own;
  if (arrived_) own.push_back(*arrived_);
  for (const Phase& phase : phases_) {
    if (phase.end) own.push_back(*phase.end);
  }
  for (const device::DeviceMemoryOfPeers::AllocationKey& key : opened_) direct_.peers().done(key);
  for (const device::Scratch::Piece& piece : scratch_) {
    if (idle) {
      direct_.scratch().give(piece);
    } else {
      direct_.scratch().give_after(piece, pending_events());
    }
  }
  give_chain_memory(idle, std::move(own));
}

}  // namespace holdfast::device_comm
