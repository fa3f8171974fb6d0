// How a group's ops begin and end.
#include <algorithm>
#include <cstring>

#include "base/planted.h"
#include "group/group.h"
#include "group/schedule.h"
#include "group/world.h"

namespace holdfast::ft {
namespace {

using comm::Collective;
using comm::OpRequest;
using comm::OpWork;

// Ops of the flat exchange that one member may have ended before another: two slots.
constexpr std::size_t kFlatEnds = 2;

bool any_complete(const Incident& incident) {
  return std::any_of(incident.reports.begin(), incident.reports.end(),
                     [](const auto& report) { return report && report->complete; });
}

}  // namespace

void Group::launch_message(const std::shared_ptr<OpWork>& work, Instant deadline) {
  const Instant now = clock_->now();
  work->ticket().path = comm::OpPath::kMessage;
  observe_begin(*work, now);
  const Status ended = health();
  if (!ended.is_ok()) return end(work, describe(*work, ended));
  messages_.launch(work, deadline);
  end_messages();
}

void Group::launch(const std::shared_ptr<OpWork>& work, Instant deadline) {
  const Instant now = clock_->now();
  observe_begin(*work, now);
  // A member that has left is no reason to refuse: what it sent before may be all this op needs.
  const Status ended = health();
  if (!ended.is_ok()) return end(work, describe(*work, ended));
  const std::uint64_t sequence = work->sequence().value;
  launched_ = std::max(launched_, sequence + 1);
  Op& op = ops_[sequence];
  op.work = work;
  op.fate = unknown_;
  op.deadline = deadline;
  if (work->request().atomic) save_input(op);
  if (const auto planned = incidents_.find(sequence); planned != incidents_.end()) {
    OpFate fate = fate_of(*planned->second.front());
    for (const auto& incident : planned->second) fate = judge(fate, *work, *incident);
    op.fate = std::make_shared<const OpFate>(std::move(fate));
    incidents_.erase(planned);
  }
  if (comm_) begin(op);
}

// In the current view, from the start or where its fate has brought it.
void Group::begin(Op& op) {
  const std::shared_ptr<OpWork> work = op.work;
  if (const auto refused = refusal(op)) {
    // Not in the log of calls: some may have refused it in an earlier view.
    return end(work, describe(*work, *refused));
  }
  if (op.fate->planned) {
    begin_repair(work, *op.fate, op.deadline);
  } else {
    begin_afresh(op);
  }
  observe_path(*work);
}

std::optional<Status> Group::refusal(const Op& op) const {
  const OpRequest& request = op.work->request();
  // What somebody holds is brought to all, even so.
  if (!broken_.is_ok() && !op.fate->planned) return broken_;
  const bool vacant = comm::is_rooted(request.collective) &&
                      std::find(present_.begin(), present_.end(), request.root) == present_.end();
  if (!op.fate->lost && !(vacant && !op.fate->planned)) return std::nullopt;
  const Rank root = request.root;
  return Status(Code::kPeerLost, "its root, rank " + std::to_string(root.value) +
                                     ", was lost before the survivors held all of its data")
      .about({root}, epoch_);
}

void Group::begin_afresh(Op& op) {
  const std::shared_ptr<OpWork>& work = op.work;
  if (!op.fate->fresh) op.fate = usual_fate();
  // The healthy case shares the caller's request; a view with gaps needs one of its own.
  std::shared_ptr<const OpRequest> request(work, &work->request());
  if (present_.size() != config_.members.size()) {
    clear_vacant(work->request());
    request = std::make_shared<OpRequest>(request_in_view(work->request(), present_));
  }
  if (!op.saved.empty()) {
    auto saved = std::make_shared<OpRequest>(*request);
    saved->input[0].data = op.saved.data();
    request = std::move(saved);
  }
  comm_->launch({work, std::move(request), op.deadline, {}, begin_feedback(op)});
}

void Group::begin_repair(const std::shared_ptr<OpWork>& work, const OpFate& fate,
                         Instant deadline) {
  OpRequest source = work->request();
  if (const auto op = ops_.find(work->sequence().value); op != ops_.end()) {
    if (!op->second.saved.empty()) source.input[0].data = op->second.saved.data();
    if (op->second.work == work) note_uncoded(op->second);
    // Reduced again as a whole: what earlier views left of these blocks has other contributors.
    for (const auto& reduction : fate.reductions) {
      if (source.atomic) op->second.held.erase(reduction.block);
    }
  }
  const std::uint64_t element = dtype_bytes(source.dtype);
  for (const auto& [rank, block] : fate.zeros) {
    if (rank != config_.rank || block >= source.output.size()) continue;
    const comm::Block& out = source.output[block];
    if (out.count > 0) std::memset(out.data, 0, out.count * element);
  }
  comm::RepairRun repair = make_repair(fate, source, present_, config_.rank);
  auto request = std::make_shared<OpRequest>(std::move(source));
  comm_->launch({work, std::move(request), deadline, std::move(repair)});
}

void Group::save_input(Op& op) {
  const OpRequest& request = op.work->request();
  const bool in_place = request.collective == Collective::kAllReduce && !request.input.empty() &&
                        request.input[0].data == request.output[0].data;
  if (!in_place) return;
  const comm::Block& in = request.input[0];
  op.saved.assign(in.data, in.data + in.count * dtype_bytes(request.dtype));
}

// Blocks of ranks that have no member hold zeros, not what was there.
void Group::clear_vacant(const OpRequest& request) const {
  if (request.output.size() != config_.members.size()) return;
  for (std::size_t r = 0; r < config_.members.size(); ++r) {
    const comm::Block& out = request.output[r];
    if (config_.members[r] != kNobody || out.count == 0) continue;
    std::memset(out.data, 0, out.count * dtype_bytes(request.dtype));
  }
}

void Group::on_op_ended(const std::shared_ptr<OpWork>& work, comm::Held held) {
  const std::uint64_t sequence = work->sequence().value;
  const auto at = ops_.find(sequence);
  if (at == ops_.end() || at->second.work != work) {
    // It served others, and has served them all.
    kept_.erase(sequence);
    return;
  }
  if (held == comm::Held::kFlat) {
    note_flat_end(call_of(work->request(), work->sequence()), at->second.fate->epoch);
  }
  if (held == comm::Held::kHere && !is_planted(Planted::kDropKept)) keep(work);
  end(work, Status::ok());
}

void Group::note_flat_end(const comm::Call& call, Epoch epoch) {
  if (flat_ends_.size() == kFlatEnds) flat_ends_.erase(flat_ends_.begin());
  flat_ends_.push_back({call, epoch});
}

// A copy of the result, from which members that lack it can be served.
void Group::keep(const std::shared_ptr<OpWork>& work) {
  OpRequest request = work->request();
  request.step.replicated = nullptr;  // what is left to deliver, is delivered to others
  request.how.gate = nullptr;
  const std::uint64_t element = dtype_bytes(request.dtype);
  std::uint64_t bytes = 0;
  for (const comm::Block& block : request.output) bytes += block.count * element;
  Kept& kept = kept_[work->sequence().value];
  kept.fate = ops_.at(work->sequence().value).fate;
  kept.completed_in = kept.fate->epoch;
  kept.memory = kept_pool_.take(bytes);
  std::byte* at = kept.memory.data();
  for (comm::Block& block : request.output) {
    if (block.count > 0) std::memcpy(at, block.data, block.count * element);
    block.data = at;
    at += block.count * element;
  }
  // Nobody may ask for an input any more: whoever holds the result serves the result.
  if (request.collective == Collective::kAllGather) {
    request.input[0] = request.output[static_cast<std::size_t>(config_.rank.value)];
  } else if (!request.input.empty()) {
    request.input[0] = request.output[0];
  }
  kept.request = std::move(request);
}

void Group::on_stable(OpSeq through) {
  const auto end = kept_.upper_bound(through.value);
  for (auto at = kept_.begin(); at != end; at = kept_.erase(at)) {
    kept_pool_.give(std::move(at->second.memory));
  }
}

OpFate Group::judge(const OpFate& fate, const OpWork& work, const Incident& incident) const {
  const comm::OpRequest& request = work.request();
  const bool lossy = request.codec && !request.codec->spec().lossless;
  const RepairQuestion question{request.collective, request.root, request.atomic,
                                lossy && !is_planted(Planted::kMixUncoded)};
  OpFate next = fate_after(fate, question, incident);
  if (is_planted(Planted::kStaleOutcome)) next.missing = fate.missing;
  if (config_.on_peer_loss == comm::PeerLoss::kRaise && !any_complete(incident) &&
      incident.survivors != incident.before) {
    next.lost = true;
  }
  return next;
}

OpFate Group::fate_of(const Incident& incident) const {
  return fate_at_start(incident.before, config_.members.size(), {incident.epoch.value - 1});
}

// Of an op that begins now, until something happens to it.
const Fate& Group::usual_fate() {
  if (usual_ == nullptr || usual_->epoch != epoch_) {
    usual_ =
        std::make_shared<const OpFate>(fate_at_start(present_, config_.members.size(), epoch_));
    whole_ = nullptr;
    whole_ = outcome_of(usual_);
  }
  return usual_;
}

std::shared_ptr<const comm::Outcome> Group::outcome_of(const Fate& fate) const {
  if (fate == usual_ && whole_ != nullptr) return whole_;
  return std::make_shared<const comm::Outcome>(
      comm::Outcome{fate->epoch, fate->contributors, fate->missing, fate->retried, {}});
}

// Whether the result has a hole, and whether that is an error. Of what all survivors know alike
// alone, so that all of them end the op alike: a gather's root has the hole, the others fail too.
Status Group::look_for_hole(const OpWork& work, const OpFate& fate) const {
  const OpRequest& request = work.request();
  if (fate.missing.empty() || !gathers(call_of(request, work.sequence()).collective)) {
    return Status::ok();
  }
  if (request.on_hole.value_or(config_.on_hole) == comm::OnHole::kZero) return Status::ok();
  if (is_planted(Planted::kHideHole)) return Status::ok();
  if (is_planted(Planted::kOwnHole) && request.output.empty()) return Status::ok();
  const Status cause(
      Code::kPeerLost,
      "without its data the result has a hole (option on_hole=raise). The group goes on: take "
      "zeros "
      "there (on_hole=zero), start the rank again and call advance(), or make a group without it");
  return describe(work, Status(cause).about(fate.missing, fate.epoch), fate.epoch);
}

void Group::end(std::shared_ptr<OpWork> work, Status status) {
  bool repaired = false;
  if (const auto at = ops_.find(work->sequence().value);
      at != ops_.end() && at->second.work == work) {
    const Fate& fate = at->second.fate;
    repaired = fate->retried;
    work->set_outcome(outcome_of(fate));
    if (status.is_ok()) status = look_for_hole(*work, *fate);
    end_feedback(at->second, status.is_ok());
    ops_.erase(at);
  }
  if (comm::Replicated* replicated = work->request().step.replicated) {
    if (status.is_ok()) comm::deliver(work->request());
    replicated_.give(*replicated);
  }
  observe_end(*work, status, repaired);
  if (advance_ && work == advance_->agreement) on_agreed(status);
  work->settle(std::move(status));
  executor_->defer([work = std::move(work)] { work->end(); });
}

}  // namespace holdfast::ft
