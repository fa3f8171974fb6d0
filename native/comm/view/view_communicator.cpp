#include "comm/view/view_communicator.h"

#include <algorithm>
#include <limits>

#include "base/planted.h"

#include "comm/algorithms/catalogue.h"
#include "comm/call/request_check.h"

namespace holdfast::comm {
namespace {

// An op that waits this long asks whether the others made the same call. Rare enough to cost
// nothing, short enough for a person.
constexpr Duration kStallTime = std::chrono::seconds(1);

// The signature in messages of a round; a call has the same one only by a hash collision.
constexpr std::uint32_t kRoundSignature = 0x526f756e;

SliceReach reach_of(const CommunicatorConfig& config) {
  if (config.slices.empty()) return SliceReach::kNothing;
  return config.slices.front().reaches() ? SliceReach::kMemory : SliceReach::kAreas;
}

// Facts that point into `config`, which stays where it is.
ViewFacts facts_of(const CommunicatorConfig& config) {
  return {static_cast<int>(config.view.members.size()), &config.fabric.latest(),
          config.flat.has_value(), reach_of(config), config.protect};
}

}  // namespace

ViewCommunicator::ViewCommunicator(CommunicatorConfig config, ViewOwner& owner,
                                   std::shared_ptr<const Clock> clock)
    : config_(std::move(config)),
      owner_(owner),
      clock_(std::move(clock)),
      facts_(facts_of(config_)),
      last_{.on_map = config_.plans.get()},
      runs_(config_, data_links_),
      calls_(config_.view.members.size()),
      gone_(config_.view.members.size()) {
  for (const MemberLinks& links : config_.links) data_links_.push_back(links.data);
  const auto lacking = std::count(data_links_.begin(), data_links_.end(), nullptr);
  unlinked_ = lacking > 0 ? static_cast<std::size_t>(lacking) - 1 : 0;
  if (unlinked_ == 0) return;
  for (Link* link : data_links_) {
    if (link != nullptr) drop_late_views(*link);
  }
}

ViewCommunicator::~ViewCommunicator() { CHECK(active_.empty()); }

std::vector<std::string> ViewCommunicator::transports() const {
  std::vector<std::string> names;
  for (const Link* link : data_links_) {
    names.emplace_back(link == nullptr ? "none" : link->transport());
  }
  names[static_cast<std::size_t>(config_.rank.value)] = "self";
  return names;
}

bool ViewCommunicator::can_run_inline(const OpRequest& request) const {
  const auto plan = route_in_memory(request, facts_);
  return plan && plan->way == Way::kFlat;
}

bool ViewCommunicator::can_run_at_once(const OpRequest& request) const {
  if (!is_idle()) return false;
  const auto plan = route_in_memory(request, facts_);
  return plan && (plan->way == Way::kFlat || payload_bytes(request) <= kBulkBytes);
}

void ViewCommunicator::begin_inline(const OpRequest& request, const Call& call) {
  inline_differs_ = calls_.record(call);
  config_.flat->begin(request, signature_of(request, calls_.history()));
}

bool ViewCommunicator::ends_inline() {
  return !inline_differs_ && config_.flat->advance() && config_.flat->failure().is_ok();
}

void ViewCommunicator::go_on(OpLaunch launch) {
  ActiveOp active;
  active.launch = std::move(launch);
  active.stage = OpStage::kFlat;
  active.begun = true;
  active.stalls = std::min(active.launch.deadline, clock_->now() + kStallTime);
  active.bytes = payload_bytes(*active.launch.request);
  active.history = calls_.history();
  next_deadline_ = std::min(next_deadline_, active.stalls);
  config_.flat->rebind(*active.launch.request);
  active_.push_back(std::move(active));
  if (const auto differs = std::exchange(inline_differs_, {})) disagree(*differs);
}

void ViewCommunicator::take_fabrics(Fabrics fabrics) {
  config_.fabric = std::move(fabrics);
  facts_.fabric = &config_.fabric.latest();
  last_ = {.on_map = config_.plans.get()};
  runs_.forget_schedules();
}

void ViewCommunicator::note_call(const Call& call) {
  [[maybe_unused]] const auto known = calls_.record(call);
}

void ViewCommunicator::launch(OpLaunch launch) {
  ActiveOp active;
  active.launch = std::move(launch);
  const OpRequest& request = *active.launch.request;
  const OpSeq sequence = active.work().sequence();
  active.stalls = std::min(active.launch.deadline, clock_->now() + kStallTime);
  active.bytes = payload_bytes(request);
  Call call = call_of(active.work().request(), sequence);
  call.map = config_.fabric.version_of(sequence) + 1;
  const auto differs = calls_.record(call);
  active.history = calls_.history();
  next_deadline_ = std::min(next_deadline_, active.stalls);
  facts_.fabric = &config_.fabric.of(sequence);
  const Plan plan = route_in_view(request, facts_, active.launch.repair.has_value(), &last_);
  OpTicket& ticket = active.launch.work->ticket();
  ticket.path = row_of(plan.way).path;
  if (plan.way == Way::kFlat) {
    active.stage = OpStage::kFlat;
  } else {
    set_ending(active, plan.ending);
    if (unlinked_ == 0 || !awaits_links(active, plan)) make_run(active, plan);
    if (plan.algorithm != nullptr) ticket.algorithm = plan.algorithm->algorithm;
  }
  if (request.step.stands_for != nullptr) {
    ticket.path = row_of(request.step.way).path;
  }
  if (request.step.frames != nullptr) ticket.encoded = *request.step.frames;
  active_.push_back(std::move(active));
  if (ending_) report_again(sequence);
  if (differs) disagree(*differs);
}

void ViewCommunicator::make_run(ActiveOp& active, const Plan& plan) {
  const OpRequest& request = *active.launch.request;
  const OpSeq sequence = active.work().sequence();
  const std::uint32_t signature =
      signature_of(active.work().request(), active.history, config_.fabric.version_of(sequence));
  if (plan.way == Way::kRepair) {
    const auto& [schedule, layout, reduces] = *active.launch.repair;
    const FusedSchedule fused(schedule);
    if (request.weight && reduces && !is_planted(Planted::kPlainRepair)) {
      active.run = runs_.make_weighed(request, fused, layout, sequence, signature);
    } else {
      active.run = runs_.make(request, fused, layout, sequence, signature);
    }
  } else if (plan.way == Way::kSlices) {
    active.slices = &config_.slices[static_cast<std::size_t>(*plan.lane)];
    active.run = active.slices->start(request, signature);
    // No other rank waits in this round, so that it need not be the same on every rank, and the
    // route does not decide it.
    if (active.slices->lends(request)) active.kept = false;
  } else {
    active.run = runs_.make(request, plan, sequence, signature, active.launch.feedback);
  }
}

// Which of the kept ops closes a batch depends on those before it: so it, too, is the same on every
// member.
void ViewCommunicator::set_ending(ActiveOp& active, OpEnding ending) {
  active.kept = ending == OpEnding::kNothing || ending == OpEnding::kKept;
  if (ending != OpEnding::kKept) return;
  kept_bytes_ += active.bytes;
  active.closes_batch = ++kept_ops_ >= kKeptOps || kept_bytes_ >= kKeptRoom;
  if (!active.closes_batch) return;
  kept_ops_ = 0;
  kept_bytes_ = 0;
}

bool ViewCommunicator::moves_bulk() const {
  // The round at the end of a large op is as small as any.
  return std::any_of(active_.begin(), active_.end(), [](const ActiveOp& a) {
    return a.bytes > kBulkBytes && a.stage != OpStage::kRound;
  });
}

bool ViewCommunicator::progress(Instant now) {
  if (ending_) return collect_reports(now);
  if (!busy()) return false;
  bool moved = advance_flat();
  moved = advance_runs() || moved;
  if (!rounds_.empty()) moved = advance_rounds() || moved;
  if (any_gone_ && !moved) moved = check_gone();
  if (now >= next_deadline_) check_deadlines(now);
  return moved;
}

MemoryPoll ViewCommunicator::poll_memory() {
  if (ending_ || !rounds_.empty()) return {};
  bool moved = advance_flat();
  moved = advance_runs() || moved;
  const bool enough = std::all_of(active_.begin(), active_.end(), [](const ActiveOp& a) {
    return a.stage == OpStage::kFlat || a.slices != nullptr;
  });
  return {moved, enough && rounds_.empty() && !ending_};
}

bool ViewCommunicator::advance_flat() {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size();) {
    ActiveOp& active = active_[i];
    if (active.stage != OpStage::kFlat) {
      ++i;
      continue;
    }
    if (!active.begun) {
      config_.flat->begin(*active.launch.request,
                          signature_of(active.work().request(), active.history));
      active.begun = true;
    }
    const bool ended = config_.flat->advance();
    moved = moved || config_.flat->moved();
    if (!ended) return moved;  // flat ops go one after the other
    if (const Status failure = config_.flat->failure(); !failure.is_ok()) {
      fail_op(active, {failure.code(), {group_rank(config_.rank)}, failure.message()});
      return true;
    }
    finish(active);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return moved;
}

// The least priority of ops that do a piece of their work in this turn. A less urgent op takes the
// turns that urgent ops leave, and one in so many of theirs, so that it ends as well.
int ViewCommunicator::least_priority() {
  constexpr int kAny = std::numeric_limits<int>::min();
  if (active_.size() < 2) return kAny;
  int most = kAny;
  int least = std::numeric_limits<int>::max();
  for (const ActiveOp& active : active_) {
    if (active.run == nullptr || !active.run->touched()) continue;
    most = std::max(most, active.work().request().priority);
    least = std::min(least, active.work().request().priority);
  }
  const bool passes = least < most && passed_ < kMostPassed;
  passed_ = passes ? passed_ + 1 : 0;
  return passes ? most : kAny;
}

bool ViewCommunicator::advance_runs() {
  bool moved = links_ops_ && begin_linked();
  const int least = least_priority();
  for (std::size_t i = 0; i < active_.size();) {
    ActiveOp& active = active_[i];
    if (active.stage == OpStage::kHeldBack && rounds_.empty()) {
      next_stage(active);
      finish(active);
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (active.run == nullptr || active.work().request().priority < least ||
        !active.run->touched()) {
      ++i;
      continue;
    }
    moved = true;
    if (!advance_run(active)) {
      ++i;
      continue;
    }
    if (ended_ || ending_) return true;
    finish(active);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return moved;
}

// Returns whether the op has ended well, or the view has ended.
bool ViewCommunicator::advance_run(ActiveOp& active) {
  for (;;) {
    active.run->advance();
    if (active.run->failed()) {
      const Status failure = active.run->failure();
      const Rank peer = active.run->failed_peer();
      const Link* link = data_links_[static_cast<std::size_t>(peer.value)];
      // A link that breaks, for whatever reason, is a member that is missed.
      const bool broken = link != nullptr && !link->status().is_ok();
      const bool lost = failure.code() == Code::kPeerLost || broken;
      if (lost && config_.protect) {
        owner_.on_missed(peer, failure);
        return false;
      }
      fail_op(active,
              {failure.code(),
               {group_rank(lost ? peer : config_.rank)},
               "with rank " + std::to_string(group_rank(peer).value) + ": " + failure.message()});
      return true;
    }
    if (!active.run->finished()) return false;
    next_stage(active);
    if (active.run == nullptr) return active.stage != OpStage::kHeldBack;
  }
}

// After a run's end: a round that shows that all members hold the result, or nothing more.
void ViewCommunicator::next_stage(ActiveOp& active) {
  const OpSeq sequence = active.work().sequence();
  if (active.run) {
    const bool made_here =
        active.stage == OpStage::kRun && active.work().request().step.frames == nullptr;
    if (made_here) active.launch.work->ticket().encoded = active.run->encoded();
    runs_.end(*active.run);
    active.run.reset();
  }
  if (active.stage == OpStage::kRun && !active.kept && !is_planted(Planted::kSkipRound)) {
    active.stage = OpStage::kRound;
    active.run = active.slices != nullptr ? active.slices->make_round()
                                          : make_round(sequence, active.work().request().priority);
    return;
  }
  if (!active.closes_batch) return;
  // Two batches of kept results are enough: the next one waits until the last is stable.
  if (!rounds_.empty()) {
    active.stage = OpStage::kHeldBack;
    return;
  }
  rounds_.push_back({sequence, nullptr});
}

std::unique_ptr<Run> ViewCommunicator::make_round(OpSeq sequence, int priority) {
  OpRequest request;
  request.priority = priority;
  request.collective = Collective::kBarrier;
  return runs_.make(request, barrier(), no_blocks_, round_of(sequence), kRoundSignature);
}

// A round of a batch tells that this member holds all results up to its last op.
bool ViewCommunicator::advance_rounds() {
  KeptRound& round = rounds_.front();
  if (!round.run) {
    for (const ActiveOp& active : active_) {
      if (active.work().sequence() <= round.through) return false;
    }
    round.run = make_round(round.through, 0);
  }
  if (!round.run->touched()) return false;
  round.run->advance();
  if (round.run->failed()) owner_.on_missed(round.run->failed_peer(), round.run->failure());
  if (!round.run->finished()) return false;
  runs_.end(*round.run);
  owner_.on_stable(round.through);
  rounds_.erase(rounds_.begin());
  return true;
}

std::vector<Rank> ViewCommunicator::waited_for(const ActiveOp& active) const {
  if (active.stage == OpStage::kLinking) return active.unlinked;
  if (active.run != nullptr) return active.run->waited_for();
  return active.begun ? config_.flat->waited_for() : std::vector<Rank>{};
}

void ViewCommunicator::finish(ActiveOp& active) {
  if (active.run) runs_.end(*active.run);
  const bool kept = active.kept && config_.protect && size() > 1;
  const Held held = active.stage == OpStage::kFlat ? Held::kFlat
                    : kept                         ? Held::kHere
                                                   : Held::kEverywhere;
  owner_.on_op_ended(active.launch.work, held);
}

bool ViewCommunicator::finish_flat(const OpLaunch& launch) {
  CHECK(config_.flat.has_value());
  if (active_.empty() || active_.front().launch.work != launch.work) {
    ActiveOp active;
    active.launch = launch;
    active.stage = OpStage::kFlat;
    note_call(call_of(launch.work->request(), launch.work->sequence()));
    active.history = calls_.history();
    active_.insert(active_.begin(), std::move(active));
  }
  ActiveOp& active = active_.front();
  if (!active.begun) {
    config_.flat->begin(*active.launch.request,
                        signature_of(active.work().request(), active.history));
    active.begun = true;
  }
  if (!config_.flat->advance() || !config_.flat->failure().is_ok()) return false;
  active_.erase(active_.begin());
  return true;
}

}  // namespace holdfast::comm
