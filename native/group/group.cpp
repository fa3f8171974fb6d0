#include "group/group.h"

#include <algorithm>

#include "comm/algorithms/catalogue.h"
#include "comm/call/request_check.h"
#include "group/parts/op_text.h"
#include "group/world.h"

namespace holdfast::group {
namespace {

using comm::OpRequest;
using comm::OpWork;

// This much is copied and added in a few microseconds.
constexpr std::uint64_t kInstantBytes = 16 * 1024;

// The map by which a new group begins: the world's latest, which a newcomer is told.
comm::TakenMap map_of(const GroupConfig& config, World& world) {
  if (config.newcomer) return config.map;  // as the members say
  const comm::TakenMap& known = world.map();
  return known.version > config.map.version ? known : config.map;
}

}  // namespace

Group::Group(GroupConfig config, std::shared_ptr<World> world,
             std::shared_ptr<comm::Executor> executor, std::shared_ptr<const Clock> clock)
    : config_(std::move(config)),
      world_(std::move(world)),
      executor_(std::move(executor)),
      clock_(std::move(clock)),
      shares_memory_(config_.shares_memory),
      roster_{config_.rank, config_.epoch, std::move(config_.members),
              std::move(config_.world_ranks)},
      callers_({config_.epoch, roster_.members}, config_.next_sequence, config_.newcomer,
               map_of(config_, *world_)),
      watch_(config_.id, config_.rank, world_->network().observer(), clock_),
      ops_(roster_, config_.on_peer_loss == comm::PeerLoss::kRaise, config_.next_sequence,
           world_->network().observer(), clock_, watch_, *this),
      departure_({config_.name, world_->membership().self(), config_.protect,
                  world_->membership().settings().heartbeat},
                 roster_, *this),
      memory_(std::move(config_.flat), roster_,
              Sharing(config_.id, world_->membership().self(), world_->network()),
              config_.derived
                  ? std::optional(Leases(config_.id, config_.rank, std::move(config_.lessors)))
                  : std::nullopt),
      maps_(callers_.map()),
      plans_(std::make_shared<comm::MapPlans>(config_.background)),
      messages_(config_.id, config_.rank, static_cast<int>(roster_.members.size())),
      mail_(config_.id, roster_, memory_, *world_),
      dormant_(config_.derived) {
  if (config_.derived) world_->note_derived(true);
  if (config_.whole) world_->set_map(maps_.latest());
  tell_of_map();
}

Group::~Group() {
  CHECK(ops_.empty());
  if (config_.derived) world_->note_derived(false);
}

std::vector<std::string> Group::transports() const {
  std::vector<std::string> names(roster_.members.size(), "none");
  if (!comm_ && !entrance_) return names;
  for (const Rank rank : roster_.present) {
    const bool own = rank == config_.rank;
    const comm::Link* link = own ? nullptr : world_->links_to(roster_.member(rank)).data;
    if (link == nullptr && !own) continue;
    names[static_cast<std::size_t>(rank.value)] = own ? "self" : link->transport();
  }
  return names;
}

Result<std::shared_ptr<comm::Work>> Group::start(OpRequest request) {
  if (request.algorithm.empty() && !request.codec &&
      comm::takes_algorithm(request, config_.algorithm)) {
    request.algorithm = config_.algorithm;
  }
  const int size = this->size();
  if (Status status = comm::check_request(request, config_.rank, size); !status.is_ok()) {
    return status;
  }
  if (request.timeout == Duration::zero()) request.timeout = config_.timeout;
  const bool wake = !request.how.expect_wait;
  std::shared_ptr<OpWork> work;
  const Status taken = callers_.call(request, name(), [&](OpSeq number) {
    if (config_.protect && !shares_memory_.load(std::memory_order_relaxed) &&
        comm::replicated_as(request, size)) {
      request = comm::replicated_by(std::move(request), replicated_.take(), config_.rank, size);
    }
    work = new_work(std::move(request), number);
    if (!wake) work->tell_wait(comm::OtherWait::kWhole);
    if (watch_.is_observed()) work->ticket().enqueued = clock_->now();
    executor_->submit([self = shared_from_this(), work] { self->enter(work); }, wake);
  });
  if (!taken.is_ok()) return taken;
  return std::shared_ptr<comm::Work>(std::move(work));
}

std::shared_ptr<OpWork> Group::new_work(OpRequest&& request, OpSeq sequence) const {
  return std::allocate_shared<OpWork>(RecyclingAllocator<OpWork>(recycler_), std::move(request),
                                      sequence, executor_, clock_);
}

bool Group::is_instant(const comm::OpRequest& request) const {
  return shares_memory_.load(std::memory_order_relaxed) && executor_->has_cores() &&
         comm::payload_bytes(request) <= kInstantBytes;
}

Result<comm::Ran> Group::run(comm::OpRequest&& request) {
  if (shares_memory_.load(std::memory_order_relaxed) && !request.atomic &&
      request.algorithm.empty() && config_.algorithm.empty()) {
    InlineOp<Group> op(*this, request);
    executor_->drive_inline([&op](bool last) { return op.step(last); });
    if (op.has_begun()) return op.take();
  }
  return Communicator::run(std::move(request));
}

// The first op of a derived group begins when all members have made the group, which most have by
// then.
bool Group::is_settling(const comm::OpRequest& request) {
  if (!entrance_ || comm::is_point_to_point(request.collective)) return false;
  if (dormant_) end_dormancy();
  if (!entrance_ || !memory_.is_leasing()) return false;
  if (!memory_.settle()) return true;
  enter_view();
  return false;
}

bool Group::can_begin_inline(const comm::OpRequest& request) const {
  return comm_ && ops_.empty() && gate_queue_.empty() && !request.how.gate &&
         !boundary_.is_under_way() && ops_.broken().is_ok() && !ops_.awaits_calls() &&
         !departure_.has_leavers() && roster_.is_full() && comm_->is_idle();
}

InlineShape Group::inline_shape(const comm::OpRequest& request) const {
  if (comm_->is_usual(request)) return InlineShape::kUsual;
  const auto size = static_cast<int>(roster_.present.size());
  if (!comm_->can_run_at_once(request) || !check_request(request, config_.rank, size).is_ok()) {
    return InlineShape::kNone;
  }
  return comm_->can_run_inline(request) ? InlineShape::kNew : InlineShape::kSliced;
}

void Group::begin_inline(const comm::OpRequest& request, OpSeq number, InlineShape shape,
                         comm::OpTicket& ticket) {
  ops_.note_inline_begin(number);
  if (shape == InlineShape::kNew) comm_->set_usual(request);
  inline_call_ = call_of(request, number);
  comm_->begin_inline(request, inline_call_);
  // The other members run the op meanwhile.
  watch_.began_inline(ticket, request, number, roster_.epoch);
}

std::shared_ptr<const comm::Outcome> Group::end_inline(comm::OpTicket& ticket) {
  auto outcome = ops_.note_inline_end(inline_call_);
  watch_.ended_inline(ticket);
  return outcome;
}

std::shared_ptr<OpWork> Group::inline_work(comm::OpRequest& request, OpSeq number) const {
  request.how.expect_wait = true;
  if (request.timeout == Duration::zero()) request.timeout = config_.timeout;
  auto work = new_work(std::move(request), number);
  work->tell_wait(comm::OtherWait::kWhole);
  return work;
}

std::shared_ptr<comm::Work> Group::launch_inline(comm::OpRequest& request, OpSeq number) {
  const auto work = inline_work(request, number);
  launch(work, clock_->now() + work->request().timeout);
  return work;
}

std::shared_ptr<comm::Work> Group::go_on_inline(comm::OpRequest& request, OpSeq number,
                                                const comm::OpTicket& ticket) {
  ask_for_turns();
  const auto work = inline_work(request, number);
  work->ticket() = ticket;
  const Instant deadline = clock_->now() + work->request().timeout;
  ops_.add_inline(work, deadline);
  comm_->go_on({work, std::shared_ptr<const comm::OpRequest>(work, &work->request()), deadline});
  return work;
}

bool Group::look_inline(OpSeq number) {
  if (comm_) comm_->poll_memory();
  return !ops_.contains(number);
}

void Group::enter(const std::shared_ptr<OpWork>& work) {
  ask_for_turns();
  const Instant now = clock_->now();
  const Instant deadline = now + work->request().timeout;
  if (!gate_queue_.holds(*work)) return launch(work, deadline);
  gate_queue_.push({work, deadline});
  pass_gates(now);
}

// Returns whether an op left the gate queue.
bool Group::pass_gates(Instant now) {
  bool moved = false;
  while (const auto passed = gate_queue_.next(now)) {
    moved = true;
    const auto& [work, deadline] = passed->op;
    if (!passed->status.is_ok()) {
      refuse_at_gate(*work, passed->status);
      break;
    }
    launch(work, deadline);
  }
  return moved;
}

// As with an op that timed out: this rank has lost its place in the program, and the others must
// not wait for it.
void Group::refuse_at_gate(const OpWork& work, const Status& why) {
  const std::string text = op_text(work, name()) + ": " + why.message();
  if (comm::ViewCommunicator* comm = entered()) {
    comm->end_view({why.code(), {config_.rank}, text});
  }
  fail(Status(why.code(), text).about({config_.rank}, roster_.epoch));
}

void Group::launch(const std::shared_ptr<OpWork>& work, Instant deadline) {
  ask_for_turns();
  const bool message = comm::is_point_to_point(work->collective());
  if (message) work->ticket().path = comm::OpPath::kMessage;
  watch_.began(*work, roster_.epoch, clock_->now());
  // A member that has left is no reason to refuse: what it sent before may be all that this op
  // needs.
  const Status ended = health();
  if (!ended.is_ok()) return end_badly(work, ended);
  if (!message) {
    if (dormant_) end_dormancy();
    return ops_.launch(work, deadline, comm_.get());
  }
  // Of two that have no connection yet, who sends calls.
  if (work->collective() == comm::Collective::kSend) reach(work->request().peer);
  messages_.launch(work, deadline);
  end_messages();
}

void Group::end_messages() {
  messages_.take_ended(ended_messages_);
  for (auto& ended : ended_messages_) {
    if (ended.status.is_ok()) {
      end(ended.work, ended.status);
    } else {
      end_badly(ended.work, ended.status);
    }
  }
  ended_messages_.clear();
  // As with a collective: a rank that gave up on a message has lost its place in the program.
  if (const auto failure = messages_.take_failure()) {
    const comm::ViewNotice notice{
        failure->status.code(), failure->status.ranks(),
        op_text(*failure->work, name()) + ": " + failure->status.message()};
    if (comm::ViewCommunicator* comm = entered()) return comm->end_view(notice);
    fail(failure->status);
  }
}

void Group::end(std::shared_ptr<OpWork> work, Status status) {
  const OpTable::Ended ended = ops_.take(*work, status.is_ok(), config_.on_hole);
  if (ended.hole) status = describe(*work, *ended.hole, ended.epoch);
  if (comm::Replicated* replicated = work->request().step.replicated) {
    if (status.is_ok()) comm::deliver(work->request());
    replicated_.give(*replicated);
  }
  watch_.ended(*work, status.code(), ended.repaired);
  if (boundary_.is_vote(work)) after_vote(status);
  work->settle(std::move(status));
  executor_->defer([work = std::move(work)] { work->end(); });
}

bool Group::progress(Instant now) {
  bool moved = !gate_queue_.empty() && pass_gates(now);
  moved = messages_.progress(now) || moved;
  moved = mail_.progress() || moved;
  end_messages();
  if (entrance_ && !dormant_) look_at_entrance(now);
  if (stepping_out_) look_at_stepping_out();
  if (comm_) {
    moved = comm_->progress(now) || moved;
  } else if (ops_.is_late(now)) {
    // Between two views no communicator watches the time, so the group does.
    const std::string blocked = world_->membership().blocked();
    fail({Code::kTimeout,
          "the timeout passed (option timeout) while the members could not agree on the next view" +
              (blocked.empty() ? "" : ": " + blocked)});
  }
  if (boundary_.is_under_way() && world_->membership().is_paused(now)) boundary_.wait_on(now);
  if (boundary_.is_under_way() && boundary_.is_late(now)) {
    // The coordinator does not answer, or one of the members went another way.
    fail({Code::kTimeout, "advance() timed out (option timeout) at the coordinator; " +
                              world_->membership().blocked()});
  }
  if (!departure_.is_idle()) departure_.progress(now);
  if (watch_.is_due(now)) observe_waits(now);
  return moved;
}

comm::MemoryPoll Group::poll_memory() {
  const auto mail = mail_.poll_memory();
  const comm::MemoryPoll ops = poll_ops();
  if (!mail) return ops;
  return {mail->moved || ops.moved, mail->enough && ops.enough};
}

comm::MemoryPoll Group::poll_ops() {
  if (entrance_ && memory_.is_leasing() && !dormant_) {
    const bool settled = memory_.settle();
    if (settled) enter_view();
    return {settled, true};
  }
  if (!comm_ || boundary_.is_under_way() || !gate_queue_.empty() || messages_.busy() ||
      has_missed()) {
    return {};
  }
  if (!departure_.is_idle()) return {};
  return comm_->poll_memory();
}

Instant Group::next_deadline() const {
  const Instant next = std::min(
      {messages_.next_deadline(), departure_.next_deadline(), gate_queue_.next_deadline()});
  if (comm_) return std::min(next, comm_->next_deadline());
  return std::min({next, ops_.next_deadline(), boundary_.next_deadline()});
}

void Group::observe_waits(Instant now) {
  const OpWork* collective = comm_ ? comm_->oldest() : nullptr;
  if (entrance_ && !ops_.empty()) collective = ops_.first_work().get();
  const OpWork* chosen = watch_.choose(collective, messages_.oldest(), now);
  if (chosen == nullptr) return;
  std::vector<Rank> ranks;
  for (const Rank rank :
       chosen == collective ? collective_waits_for() : messages_.oldest_waits_for()) {
    ranks.push_back(roster_.world_ranks[static_cast<std::size_t>(rank.value)]);
  }
  watch_.waits(*chosen, std::move(ranks), now);
}

std::vector<Rank> Group::collective_waits_for() const {
  if (!entrance_) return comm_->oldest_waits_for();
  std::vector<Rank> ranks;
  for (const MemberId member : memory_.awaited()) {
    if (member != world_->membership().self()) ranks.push_back(*roster_.rank_of(member));
  }
  return ranks;
}

void Group::fail(const Status& status) {
  if (!callers_.end(status)) return;
  entrance_.reset();
  memory_.stop();
  if (config_.id == world_->id()) watch_.failed(status);
  while (!ops_.empty()) end_badly(std::shared_ptr(ops_.first_work()), status);
  for (const GateQueue::Called& op : gate_queue_.take_all()) end_badly(op.work, status);
  if (boundary_.is_under_way()) end_boundary(status);
  messages_.fail_all(status);
  mail_.end(status);
  end_messages();
  ops_.forget_results();
  if (previous_) previous_->abandon();
}

Status Group::describe(const OpWork& work, const Status& cause, Epoch epoch) const {
  return group::describe(work, cause, name(), roster_, epoch);
}

void Group::abort(const std::string& reason) {
  const comm::ViewNotice notice{Code::kAborted, {config_.rank}, "aborted: " + reason, {}};
  executor_->submit(
      [self = shared_from_this(), notice] {
        if (comm::ViewCommunicator* comm = self->entered()) return comm->end_view(notice);
        self->fail(Status(notice.code, notice.text).about(notice.ranks, self->roster_.epoch));
      },
      true);
}

}  // namespace holdfast::group
