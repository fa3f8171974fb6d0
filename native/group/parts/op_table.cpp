#include "group/parts/op_table.h"

#include <algorithm>
#include <cstring>

#include "base/planted.h"
#include "group/schedule.h"

namespace holdfast::group {
namespace {

using comm::OpRequest;
using comm::OpWork;

// Copies the input of an op whose result overwrites it; else empty.
std::vector<std::byte> copy_of_input(const OpRequest& request) {
  const bool in_place = request.collective == comm::Collective::kAllReduce &&
                        !request.input.empty() && request.input[0].data == request.output[0].data;
  if (!in_place) return {};
  const comm::Block& in = request.input[0];
  return {in.data, in.data + in.count * request.element_bytes()};
}

// Clears the parts of this rank's result that no member has any more.
void clear_lost(const OpFate& fate, const OpRequest& request, Rank self) {
  const std::uint64_t element = request.element_bytes();
  for (const auto& [rank, block] : fate.zeros) {
    if (rank != self || block >= request.output.size()) continue;
    const comm::Block& out = request.output[block];
    if (out.count > 0) std::memset(out.data, 0, out.count * element);
  }
}

}  // namespace

OpTable::OpTable(const Roster& roster, bool raises_losses, std::uint64_t first,
                 comm::Observer* observer, std::shared_ptr<const Clock> clock, OpWatch& watch,
                 OpHost& host)
    : roster_(roster),
      raises_losses_(raises_losses),
      clock_(std::move(clock)),
      watch_(watch),
      host_(host),
      first_uncalled_(first),
      feedback_(roster.self, observer, clock_) {}

std::uint64_t OpTable::first_kept() const {
  const auto kept = kept_.first();
  return kept ? std::min(first_uncalled_, kept->value) : first_uncalled_;
}

std::uint64_t OpTable::first_in_question() const {
  const auto kept = kept_.oldest();
  return kept ? std::min(first_running(), kept->value) : first_running();
}

bool OpTable::is_late(Instant now) const {
  return std::any_of(ops_.begin(), ops_.end(),
                     [now](const auto& op) { return now >= op.second.deadline; });
}

Instant OpTable::next_deadline() const {
  Instant next{Duration::max()};
  for (const auto& [sequence, op] : ops_) next = std::min(next, op.deadline);
  return next;
}

void OpTable::add_inline(const std::shared_ptr<OpWork>& work, Instant deadline) {
  Op& op = ops_[work->sequence().value];
  op.work = work;
  op.deadline = deadline;
  op.fate = fates_.usual(roster_);
}

void OpTable::launch(const std::shared_ptr<OpWork>& work, Instant deadline,
                     comm::ViewCommunicator* comm) {
  const std::uint64_t sequence = work->sequence().value;
  first_uncalled_ = std::max(first_uncalled_, sequence + 1);
  Op& op = ops_[sequence];
  op.work = work;
  op.fate = fates_.unknown();
  op.deadline = deadline;
  if (work->request().atomic) op.saved = copy_of_input(work->request());
  if (const auto planned = incidents_.find(sequence); planned != incidents_.end()) {
    op.fate = std::make_shared<const OpFate>(
        fate_through(planned->second, question_of(work->request()), rules()));
    incidents_.erase(planned);
  }
  if (comm != nullptr) begin(op, *comm);
}

void OpTable::begin_all(comm::ViewCommunicator& comm) {
  for (auto at = ops_.begin(); at != ops_.end();) begin((at++)->second, comm);
}

// Begins the op in the current view, from the start or from where its fate has brought it.
void OpTable::begin(Op& op, comm::ViewCommunicator& comm) {
  const std::shared_ptr<OpWork> work = op.work;
  if (const auto refused =
          refusal(work->request(), *op.fate, roster_.present, broken_, roster_.epoch)) {
    // The op is not in the log of calls: some members may have refused it in an earlier view.
    return host_.end_badly(work, *refused);
  }
  if (op.fate->planned) {
    begin_repair(work, *op.fate, op.deadline, comm);
  } else {
    begin_afresh(op, comm);
  }
  watch_.took_path(*work, roster_.epoch);
}

void OpTable::begin_afresh(Op& op, comm::ViewCommunicator& comm) {
  const std::shared_ptr<OpWork>& work = op.work;
  if (!op.fate->fresh) op.fate = fates_.usual(roster_);
  // With all ranks present the op shares the caller's request; a view with gaps needs its own.
  std::shared_ptr<const OpRequest> request(work, &work->request());
  if (!roster_.is_full()) {
    clear_vacant(work->request());
    request = std::make_shared<OpRequest>(request_in_view(work->request(), roster_.present));
  }
  if (!op.saved.empty()) {
    auto saved = std::make_shared<OpRequest>(*request);
    saved->input[0].data = op.saved.data();
    request = std::move(saved);
  }
  comm.launch({work,
               std::move(request),
               op.deadline,
               {},
               feedback_.begin(op.residual, work->request(), roster_.present)});
}

void OpTable::begin_repair(const std::shared_ptr<OpWork>& work, const OpFate& fate,
                           Instant deadline, comm::ViewCommunicator& comm) {
  OpRequest source = work->request();
  if (const auto op = ops_.find(work->sequence().value); op != ops_.end()) {
    if (!op->second.saved.empty()) source.input[0].data = op->second.saved.data();
    if (op->second.work == work) {
      feedback_.note_uncoded(op->second.residual, work->request(), fate);
    }
    // These blocks are reduced again as a whole: what earlier views left of them has other
    // contributors.
    for (const auto& reduction : fate.reductions) {
      if (source.atomic) op->second.held.erase(reduction.block);
    }
  }
  clear_lost(fate, source, roster_.self);
  comm::RepairRun repair = make_repair(fate, source, roster_.present, roster_.self);
  auto request = std::make_shared<OpRequest>(std::move(source));
  comm.launch({work, std::move(request), deadline, std::move(repair)});
}

// Blocks of ranks that have no member hold zeros, not what was there.
void OpTable::clear_vacant(const OpRequest& request) const {
  if (request.output.size() != roster_.members.size()) return;
  for (std::size_t r = 0; r < roster_.members.size(); ++r) {
    const comm::Block& out = request.output[r];
    if (roster_.members[r] != ft::kNobody || out.count == 0) continue;
    std::memset(out.data, 0, out.count * request.element_bytes());
  }
}

void OpTable::on_ended(const std::shared_ptr<OpWork>& work, comm::Held held) {
  const OpSeq sequence = work->sequence();
  const auto at = ops_.find(sequence.value);
  // The op served other members, and has served them all.
  if (at == ops_.end() || at->second.work != work) return kept_.forget(sequence);
  const Fate& fate = at->second.fate;
  if (held == comm::Held::kFlat) {
    kept_.note_flat_end(call_of(work->request(), sequence), fate->epoch);
  }
  if (held == comm::Held::kHere && !is_planted(Planted::kDropKept)) {
    kept_.keep(*work, fate, roster_.self);
  }
  host_.end(work, Status::ok());
}

OpTable::Ended OpTable::take(OpWork& work, bool well, comm::OnHole on_hole) {
  const auto at = ops_.find(work.sequence().value);
  if (at == ops_.end() || at->second.work.get() != &work) return {};
  const Fate& fate = at->second.fate;
  Ended ended{fate->retried, {}, fate->epoch};
  work.set_outcome(fates_.outcome_of(fate));
  if (well) {
    Status hole = look_for_hole(work.request(), *fate, on_hole);
    if (!hole.is_ok()) ended.hole = std::move(hole);
  }
  feedback_.end(at->second.residual, work.request(), roster_.present, well && !ended.hole);
  ops_.erase(at);
  return ended;
}

void OpTable::note_stopped(std::vector<comm::Stopped> stopped) {
  for (comm::Stopped& one : stopped) {
    const auto at = ops_.find(one.work->sequence().value);
    if (at == ops_.end() || at->second.work != one.work) continue;
    Op& op = at->second;
    op.complete = op.complete || one.complete;
    if (is_planted(Planted::kForgetHeld)) one.held.clear();
    for (HeldBlock& block : held_blocks(op.work->request(), roster_.self, one.held)) {
      op.held[block.block].add(block.held);
    }
  }
}

void OpTable::report(std::vector<OpReport>& ops) const {
  kept_.report(ops);
  for (const auto& [sequence, op] : ops_) {
    OpReport said{{sequence}, op.complete, false, op.fate->epoch, {}};
    for (const auto& [block, held] : op.held) {
      if (!op.complete) said.held.push_back({block, held});
    }
    ops.push_back(std::move(said));
  }
}

void OpTable::meet_at(std::uint64_t first) {
  broken_ = Status::ok();
  kept_.clear();
  // What the dead had called concerns other ops than those that get these numbers now, and
  // newcomers do not know of it.
  incidents_.clear();
  for (auto& [sequence, op] : ops_) op.fate = fates_.unknown();
  first_uncalled_ = std::max(first_uncalled_, first);
}

// Gathers what is known of all ops that the change concerns.
Incidents OpTable::gather(const Change& change) {
  std::map<Rank, const GroupReport*> by_rank;
  std::size_t next = 0;  // the reports come by rank
  for (const auto& [member, report] : change.reports) {
    const bool follows = next < roster_.members.size() && roster_.members[next] == member;
    const auto rank =
        follows ? std::optional(Rank{static_cast<std::int32_t>(next)}) : roster_.rank_of(member);
    if (rank) next = static_cast<std::size_t>(rank->value) + 1;
    if (rank && report->failure == Code::kOk) by_rank[*rank] = report.get();
  }
  const Incident blank{roster_.epoch,
                       change.ranks_before,
                       roster_.stayed(change.ranks_before, change.members_before),
                       {},
                       false};
  Incidents incidents = incidents_of(blank, by_rank);
  // Ops whose callers have all gone: a member that calls one later, or has called it since it
  // reported, must know of this view's losses, too.
  auto unknown = std::make_shared<Incident>(blank);
  unknown->reports.resize(blank.survivors.size());
  for (auto& [sequence, planned] : incidents_) {
    if (!incidents.contains(sequence)) planned.push_back(unknown);
  }
  for (const auto& [sequence, op] : ops_) {
    if (!op.fate->contributors.empty()) incidents.emplace(sequence, unknown);
  }
  return incidents;
}

void OpTable::settle(const Change& change, const Views& views) {
  const Incidents incidents = gather(change);
  std::vector<std::uint64_t> sequences;
  sequences.reserve(incidents.size() + ops_.size());
  for (const auto& [sequence, incident] : incidents) sequences.push_back(sequence);
  for (const auto& [sequence, op] : ops_) {
    if (!incidents.contains(sequence)) sequences.push_back(sequence);
  }
  std::sort(sequences.begin(), sequences.end());
  for (const std::uint64_t sequence : sequences) {
    const auto at = incidents.find(sequence);
    if (at != incidents.end()) {
      settle_op({sequence}, at->second, views);
    } else {
      begin(ops_.at(sequence), *views.now);
    }
  }
}

void OpTable::settle_op(OpSeq sequence, const std::shared_ptr<Incident>& incident,
                        const Views& views) {
  using Where = OpStanding::Where;
  const auto at = ops_.find(sequence.value);
  Op* const op = at == ops_.end() ? nullptr : &at->second;
  KeptResults::Kept* const kept = kept_.find(sequence);
  const comm::Call* const flat_end = kept_.flat_end(sequence);
  OpStanding standing;
  RepairQuestion question;
  if (op != nullptr) {
    standing = {Where::kUnderWay, op->complete, op->fate.get()};
    question = question_of(op->work->request());
  } else if (flat_end != nullptr) {
    standing = {Where::kEndedFlat};
  } else if (kept != nullptr) {
    standing = {Where::kKept, true, kept->fate.get()};
    question = question_of(kept->request);
  }
  Judgement judged = judge(standing, question, rules(), *incident);
  if (judged.fate) {
    (op != nullptr ? op->fate : kept->fate) =
        std::make_shared<const OpFate>(std::move(*judged.fate));
  }
  // The table drops an op that ends, and its work: this copy keeps the work.
  const std::shared_ptr<OpWork> work = op == nullptr ? nullptr : op->work;
  if (incident->settled) kept_.forget(sequence);
  switch (judged.verdict) {
    case Verdict::kForget: return;
    case Verdict::kRemember: return incidents_[sequence.value].push_back(incident);
    case Verdict::kNote:
      views.now->note_call(flat_end != nullptr ? *flat_end : call_of(kept->request, sequence));
      if (flat_end == nullptr) kept_.forget(sequence);
      return;
    case Verdict::kServe: return serve(sequence, *kept, *views.now);
    case Verdict::kEnd: return host_.end(work, Status::ok());
    case Verdict::kEndNoted:
      views.now->note_call(call_of(work->request(), sequence));
      return host_.end(work, Status::ok());
    case Verdict::kFinishFlat: return finish_on_flat(*op, views);
    case Verdict::kBegin: return begin(*op, *views.now);
  }
}

// Most kept results are never asked for. Those that are get a work of their own in each view.
void OpTable::serve(OpSeq sequence, const KeptResults::Kept& kept, comm::ViewCommunicator& comm) {
  const std::shared_ptr<OpWork> served = host_.make_server(kept.request, sequence);
  const Fate fate = kept.fate;
  begin_repair(served, *fate, clock_->now() + served->request().timeout, comm);
}

// All ranks had published: what one of them has read, all can still read.
void OpTable::finish_on_flat(Op& op, const Views& views) {
  const std::shared_ptr<OpWork> work = op.work;
  std::shared_ptr<const OpRequest> request(work, &work->request());
  if (views.before != nullptr && views.before->config().ranks.size() != roster_.members.size()) {
    request =
        std::make_shared<OpRequest>(request_in_view(work->request(), views.before->config().ranks));
  }
  const bool ended =
      views.before != nullptr && views.before->finish_flat({work, request, op.deadline});
  const comm::Call call = call_of(work->request(), work->sequence());
  views.now->note_call(call);
  if (ended) {
    kept_.note_flat_end(call, op.fate->epoch);
    return host_.end(work, Status::ok());
  }
  host_.end_badly(work, {Code::kProtocolError, "it ended elsewhere without this rank's part"});
}

}  // namespace holdfast::group
