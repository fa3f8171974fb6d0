#include "sim/process.h"

#include <algorithm>
#include <array>

namespace holdfast::sim {
namespace {

// How long a leaving process waits for the others to say that they need it no more.
constexpr int kHeartbeatsToPart = 200;
// More rounds at one instant mean an endless loop.
constexpr int kMostRounds = 20'000;

}  // namespace

// All processes beat to all others: in large worlds less often, or nothing else would happen.
Duration heartbeat(const Scenario& scenario) {
  if (scenario.ranks > 33) return std::chrono::milliseconds(50);
  return std::chrono::milliseconds(scenario.ranks > 9 ? 20 : 5);
}

Duration silence(const Scenario& scenario) { return heartbeat(scenario) * 6; }

Process::Process(const Scenario& scenario, int number, MemberId id, Rank rank, Surroundings& around)
    : scenario_(scenario),
      number_(number),
      id_(id),
      rank_(rank),
      host_("host" + std::to_string(rank.value % scenario.hosts)),
      around_(around),
      clock_(std::make_shared<LocalClock>(around, number)),
      router_(id, {heartbeat(scenario), silence(scenario)}, *this) {}

void Process::add_peer(MemberId peer, std::unique_ptr<comm::Link> control,
                       std::unique_ptr<comm::Link> data) {
  comm::Link* first = control.get();
  comm::Link* second = data ? data.get() : first;
  auto& links = links_[peer];
  links.push_back(std::move(control));
  if (data) links.push_back(std::move(data));
  router_.add_peer(peer, first, second, clock_->now());
}

void Process::on_end(MemberId peer, Word word) {
  if (word == Word::kKernel) router_.on_process_ended(peer);
  if (word == Word::kPacket) router_.on_refused(peer);
  if (word == Word::kWitness) router_.on_witnessed_end(peer);
}

void Process::say_ended(MemberId member) {
  for (const auto& world : {world_, second_world_}) {
    if (!world) continue;
    ft::Message report;
    report.kind = ft::MessageKind::kReport;
    report.world = world->id();
    report.epoch = world->view().epoch;
    report.lost = {member};
    // Of no ballot, so that it promises nothing.
    for (const auto& [peer, links] : links_) router_.send(peer, report);
  }
}

void Process::step() {
  bool called = false;  // by the program in the round before: calls may write, too
  for (int round = 0; round < kMostRounds; ++round) {
    bool moved = run_tasks();
    moved = router_.turn(clock_->now()) || moved;
    if (joining_) look_at_joining();
    moved = run_tasks() || moved;
    if (group_) {
      look_at_views();
      if (moved || called) look_at_inputs();
      called = run_program();
      moved = called || moved;
    }
    if (!moved && tasks_.empty()) return;
  }
  around_.ledger().on_wrong(number_, "G3: runs in circles; " + state());
}

// Tells the ledger of every view since the last look: several may have begun in one turn.
void Process::look_at_views() {
  for (const auto* held : {&world_, &second_world_}) {
    const auto& world = *held;
    if (!world) continue;
    Epoch& seen = seen_[held == &second_world_];
    for (; seen < world->view().epoch; ++seen.value) {
      const ft::WorldView* view = world->view_at({seen.value + 1});
      if (view != nullptr) around_.on_view(number_, world->id(), *view);
    }
  }
}

// A process that was a member when the op was called, and still is one, is part of every result of
// the op.
void Process::look_at_inputs() {
  for (const Running& op : running_) {
    const std::vector<MemberId>& now = op.group->roster().members;
    const bool done = std::all_of(op.works.begin(), op.works.end(),
                                  [](const auto& work) { return work->done(); });
    if (op.ended || done) continue;
    std::vector<Rank> all;
    for (std::size_t r = 0; r < op.members.size() && r < now.size(); ++r) {
      const bool stayed = now[r] != ft::kNobody && now[r] == op.members[r];
      if (stayed) all.push_back({static_cast<std::int32_t>(r)});
    }
    const std::string wrong = op.data->check_input(all);
    // A member that was voted out while it was paused may have read data of later ops. G5 is for
    // survivors; the op of such a member must not end well.
    const CommId world = world_of(op.group->id());
    if (wrong.empty() || around_.ledger().has_lost(world, op.group->view().epoch, id_)) continue;
    around_.ledger().on_wrong(
        number_, "G5: op " + std::to_string(op.number) + ", " +
                     std::string(comm::collective_name(op.data->op().collective)) + ": " + wrong);
  }
}

bool Process::run_tasks() {
  bool ran = false;
  while (!tasks_.empty()) {
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
    ran = true;
  }
  return ran;
}

Instant Process::next_deadline() const {
  Instant next = router_.next_deadline();
  if (joining_) next = std::min(next, clock_->now() + heartbeat(scenario_));
  if (!parting_.empty() && !stopped()) next = std::min(next, gives_up_);
  return next;
}

bool Process::run_program() {
  if (done_ || stopped()) return false;
  if (!knows_step_) {
    const comm::View view = group_->view();
    const auto step = around_.step_of(view);
    if (!step) return false;
    step_ = *step;
    knows_step_ = true;
    // A process that joined with this view, and adopts it later, begins at that step, too.
    around_.on_boundary(number_, view.epoch, step_);
  }
  if (advance_) {
    if (!advance_->done()) return false;
    const Status status = advance_->status();
    const Epoch epoch = advance_->outcome().epoch;
    advance_.reset();
    if (!status.is_ok()) return end_program("advance: " + status.message(), status), true;
    ++step_;
    around_.on_boundary(number_, epoch, step_);
    return true;
  }
  if (running_.empty()) return start_step();
  return collect();
}

bool Process::start_step() {
  if (leaving_) return part();
  if (step_ >= scenario_.steps) {
    done_ = true;
    around_.log(number_, "done");
    return true;
  }
  lost_one_ = false;
  for (int part = 0; part < kParts; ++part) {
    const auto& group = groups_[static_cast<std::size_t>(part)];
    if (!group) continue;
    const auto ops = make_step(scenario_, step_, static_cast<ProgramPart>(part), group->size());
    const bool whole = static_cast<ProgramPart>(part) == ProgramPart::kWhole;
    const auto map =
        whole ? map_of_step(scenario_, step_, group->size(), static_cast<int>(ops.size()))
              : std::nullopt;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (map && i == static_cast<std::size_t>(map->before_op) && !take_map(*map)) return true;
      start_op(ops[i]);
      if (stopped()) return true;
    }
  }
  return true;
}

// Between two calls, which are the same two on all ranks.
bool Process::take_map(const MapOfStep& map) {
  const Status taken = group_->take_map(map.text);
  if (!taken.is_ok()) end_program("map: " + taken.message(), taken);
  return taken.is_ok();
}

void Process::start_op(const ProgramOp& op) {
  around_.on_op(number_, op.number, false);
  Running running;
  running.number = op.number;
  running.group = groups_[static_cast<std::size_t>(op.part)];
  const int rank = running.group->rank().value;
  const int size = running.group->size();
  running.data = std::make_unique<OpData>(op, rank, size);
  running.members = running.group->roster().members;
  std::vector<comm::OpRequest> requests{running.data->request()};
  if (op.is_shift) {
    running.spare.resize(op.count);
    requests[0].peer = {(rank + 1) % size};
    comm::OpRequest take;
    take.collective = comm::Collective::kRecv;
    take.dtype = DType::kU64;
    take.peer = {(rank + size - 1) % size};
    take.output = {{reinterpret_cast<std::byte*>(running.spare.data()), op.count}};
    requests.push_back(take);
  }
  for (comm::OpRequest& request : requests) {
    Result<comm::Ran> ran = comm::Ran{};
    if (scenario_.blocking && !op.is_shift) {
      ran = running.group->run(std::move(request));
    } else if (auto work = running.group->start(std::move(request)); work.is_ok()) {
      ran = comm::Ran{work.value(), nullptr};
    } else {
      ran = work.status();
    }
    if (!ran.is_ok()) return end_program("start: " + ran.status().message(), ran.status());
    if (ran.value().work) {
      running.works.push_back(ran.value().work);
    } else {
      running.ended = true;
      around_.ledger().on_ended(number_, op.number, *running.data, Status::ok(),
                                *ran.value().outcome);
      around_.on_op(number_, op.number, true);
    }
  }
  running_.push_back(std::move(running));
}

bool Process::collect() {
  bool moved = false;
  bool all = true;
  for (Running& running : running_) {
    if (running.ended) continue;
    const bool ended = std::all_of(running.works.begin(), running.works.end(),
                                   [](const auto& work) { return work->done(); });
    all = all && ended;
    if (!ended) continue;
    running.ended = moved = true;
    end_op(running);
  }
  if (!all || stopped()) return moved;
  keep_used();
  running_.clear();
  around_.on_saved(number_, step_ + 1);
  if (scenario_.advances || lost_one_) {
    advance_ = group_->advance({});
  } else {
    ++step_;
  }
  return true;
}

// The program reuses the memory of an op's data: in worlds where another process may be in the
// middle of reading it, the data is written over and kept.
void Process::keep_used() {
  const bool read_late =
      std::any_of(scenario_.faults.begin(), scenario_.faults.end(),
                  [](const Fault& fault) { return fault.kind == FaultKind::kSuspend; });
  if (!read_late) return;
  for (Running& running : running_) {
    running.data->write_over();
    used_.push_back(std::move(running.data));
  }
}

void Process::end_op(Running& running) {
  for (const auto& work : running.works) {
    const Status status = work->status();
    const bool shift = running.data->op().is_shift;
    if (!shift) {
      around_.ledger().on_ended(number_, running.number, *running.data, status, work->outcome());
    }
    if (status.is_ok()) continue;
    const Status health = running.group->health();
    if (!health.is_ok()) return end_program(health.message(), health);
    if (status.code() != Code::kPeerLost) return end_program(status.message(), status);
    // The other members of the whole group go to the boundary as well.
    if (scenario_.raise && !shift && running.group == group_) lost_one_ = true;
  }
  around_.on_op(number_, running.number, true);
}

bool Process::drive_inline(const std::function<bool(bool)>& step) {
  if (!tasks_.empty()) return false;
  for (int look = 0; look < 2; ++look) {
    if (step(look == 1)) break;
  }
  return true;
}

void Process::end_program(const std::string& why, const Status& status) {
  if (!ended_.empty()) return;
  told_ = status.code() == Code::kNotMember;
  ended_ = why.empty() ? "ended" : why;
  around_.log(number_, "ends: " + ended_);
  if (told_) around_.on_told(number_);
}

bool Process::has_settled() const {
  return std::all_of(parting_.begin(), parting_.end(),
                     [](const auto& leaving) { return leaving->settled.load(); });
}

// Leaves the groups as close() does, without blocking. False: still waits.
bool Process::part() {
  if (parting_.empty()) {
    gives_up_ = clock_->now() + heartbeat(scenario_) * kHeartbeatsToPart;
    for (const auto& group : groups_) {
      if (!group) continue;
      parting_.push_back(std::make_shared<group::Leaving>());
      group->begin_leaving(parting_.back());
    }
    return true;
  }
  const bool settled = has_settled();
  if (settled && !has_noticed_) {
    // In production the waiting thread runs a little later: a view may begin meanwhile.
    has_noticed_ = true;
    const auto later = (scenario_.seed * 131 + static_cast<std::uint64_t>(number_) * 197) % 400;
    gives_up_ = std::min(gives_up_, clock_->now() + std::chrono::microseconds(later));
  }
  if (clock_->now() < gives_up_) return false;
  in_peace_ = settled;
  bool told = false;
  for (const auto& group : groups_) {
    if (!group) continue;
    const Status leaving = group->leaving_status();
    in_peace_ = in_peace_ && leaving.is_ok();
    if (settled && leaving.code() == Code::kUnconfirmed) {
      around_.ledger().on_wrong(number_,
                                "G4: all had answered it, and it says: " + leaving.message());
    }
    told = told || leaving.code() == Code::kNotMember;
    [[maybe_unused]] const Status left = group->close(Duration::zero());
  }
  router_.say_goodbye();
  end_program("left");
  told_ = told;
  return true;
}

void Process::tear_down() {
  router_.set_joining(nullptr);
  router_.each_world([](const auto& world) { world->drop_lingering(); });
  for (const auto& group : groups_) {
    if (group) group->fence("the simulation ends");
  }
  run_tasks();
  running_.clear();
  advance_.reset();
  group_.reset();
  groups_ = {};
  world_.reset();
  second_world_.reset();
  run_tasks();
}

std::string Process::state() const {
  std::string text =
      "process " + std::to_string(number_) + " (rank " + std::to_string(rank_.value) + ") ";
  if (!ended_.empty()) return text + "ended: " + ended_;
  if (service_) {
    text += "coordinates";
    for (const auto& world : service_->worlds()) {
      if (!world.blocked.empty()) text += "; " + world.name + ": " + world.blocked;
    }
    return text;
  }
  if (joining_) return text + "is in the lobby";
  if (done_) return text + "is done";
  text += "is in step " + std::to_string(step_) + ", epoch " +
          std::to_string(group_ ? group_->view().epoch.value : 0);
  if (advance_) text += ", at its boundary";
  for (const Running& op : running_) {
    if (op.ended) continue;
    text += ", in " + std::string(comm::collective_name(op.data->op().collective)) + " " +
            std::to_string(op.number);
  }
  if (group_ && group_->stopped()) text += ", stopped";
  return text;
}

}  // namespace holdfast::sim
