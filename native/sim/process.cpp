#include "sim/process.h"

#include <algorithm>
#include <array>

namespace holdfast::sim {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(20);
// A leaver's, for the others to say that they need it no more.
constexpr Duration kPartingTime = std::chrono::seconds(5);
constexpr const char* kName = "simulated";
constexpr CommId kWorld{77};
// More rounds at one instant mean that something runs in circles.
constexpr int kMostRounds = 20'000;
// Small, so that ops take several.
constexpr std::uint64_t kSlice = 4096;
// Numbers of ops: those of a step follow each other.
constexpr int kOpsPerStep = 10;

// All beat to all: in large worlds more seldom, or nothing else would happen.
Duration heartbeat(const Scenario& scenario) {
  if (scenario.ranks > 33) return std::chrono::milliseconds(50);
  return std::chrono::milliseconds(scenario.ranks > 9 ? 20 : 5);
}

}  // namespace

Process::Process(const Scenario& scenario, int number, MemberId id, Rank rank, Surroundings& around)
    : scenario_(scenario),
      number_(number),
      id_(id),
      rank_(rank),
      around_(around),
      clock_(std::make_shared<LocalClock>(around, number)),
      hub_(id, heartbeat(scenario), *this) {}

std::string Process::card() const { return "host" + std::to_string(rank_.value % scenario_.hosts); }

ft::MembershipSettings Process::settings() const {
  ft::MembershipSettings settings;
  settings.heartbeat = heartbeat(scenario_);
  if (scenario_.outside) settings.coordinator = kCoordinatorId;
  return settings;
}

ft::GroupConfig Process::base_config() const {
  ft::GroupConfig config;
  config.name = kName;
  config.timeout = kTimeout;
  config.slice_bytes = kSlice;
  config.on_peer_loss = scenario_.raise ? comm::PeerLoss::kRaise : comm::PeerLoss::kContinue;
  config.on_hole = scenario_.zero_holes ? comm::OnHole::kZero : comm::OnHole::kRaise;
  // In some worlds ops are numbered over what keys have room for, in some over what 32 bits have.
  constexpr std::array<std::uint64_t, 5> kFirstOps = {0, 0, 0, comm::kRoundBit - 4,
                                                      (1ULL << 32) - 4};
  config.next_sequence = kFirstOps[scenario_.seed / 3 % kFirstOps.size()];
  return config;
}

void Process::found(const ft::WorldView& view, std::vector<comm::HostPeer> flat) {
  ft::Membership membership(kWorld, kName, id_, view, settings());
  world_ = std::make_shared<ft::World>(kWorld, std::move(membership), hub_);
  hub_.add_world(world_);
  ft::GroupConfig config = base_config();
  config.id = kWorld;
  config.rank = rank_;
  config.members = view.members;
  config.epoch = view.epoch;
  config.whole = true;
  config.shares_memory = scenario_.flat;
  config.flat = std::move(flat);
  for (int r = 0; r < scenario_.ranks; ++r) config.world_ranks.push_back({r});
  group_ = std::make_shared<ft::Group>(std::move(config), world_, shared_from_this(), clock_);
  world_->add(group_, clock_->now());
  knows_step_ = true;
}

void Process::join(const std::vector<MemberId>& contacts) {
  joining_ = std::make_unique<ft::Joining>(kName, ft::Joiner{id_, rank_, card()},
                                           heartbeat(scenario_) * 4);
  for (const MemberId contact : contacts) joining_->add_contact(contact);
  hub_.set_joining(joining_.get());
}

void Process::coordinate(std::uint64_t instance) {
  ft::Coordination::Settings settings;
  settings.heartbeat = heartbeat(scenario_);
  settings.instance = instance;
  coordination_ = std::make_unique<ft::Coordination>(settings);
  hub_.set_coordination(coordination_.get());
}

void Process::add_peer(MemberId peer, std::unique_ptr<comm::Link> control,
                       std::unique_ptr<comm::Link> data) {
  comm::Link* first = control.get();
  comm::Link* second = data ? data.get() : first;
  auto& links = links_[peer];
  links.push_back(std::move(control));
  if (data) links.push_back(std::move(data));
  hub_.add_peer(peer, first, second, clock_->now());
}

void Process::look_at_joining() {
  if (joining_->state() == ft::Joining::State::kRefused) {
    hub_.set_joining(nullptr);
    return end_program("refused: " + joining_->refusal());
  }
  if (joining_->state() != ft::Joining::State::kAdmitted) return;
  hub_.set_joining(nullptr);
  const ft::Message decision = joining_->decision();
  world_ =
      std::make_shared<ft::World>(decision, ft::Membership(kName, id_, decision, settings()), hub_);
  hub_.add_world(world_);
  auto config = world_->admitted(base_config());
  joining_.reset();
  if (!config) return end_program("admitted to a world without its group");
  group_ = std::make_shared<ft::Group>(std::move(*config), world_, shared_from_this(), clock_);
  world_->add(group_, clock_->now());
  hub_.deliver_early(clock_->now());
}

void Process::step() {
  for (int round = 0; round < kMostRounds; ++round) {
    bool moved = run_tasks();
    moved = hub_.turn(clock_->now()) || moved;
    if (joining_) look_at_joining();
    moved = run_tasks() || moved;
    if (group_) {
      around_.ledger().on_view(number_, group_->view());
      for (const Running& op : running_) {
        const std::string wrong = op.ended ? "" : op.data->check_input();
        if (!wrong.empty()) around_.ledger().on_wrong(number_, "G5: " + wrong);
      }
      moved = run_program() || moved;
    }
    if (!moved && tasks_.empty()) return;
  }
  around_.ledger().on_wrong(number_, "G3: runs in circles; " + state());
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
  Instant next = hub_.next_deadline();
  if (joining_) next = std::min(next, clock_->now() + heartbeat(scenario_));
  if (parting_ && !stopped()) next = std::min(next, gives_up_);
  return next;
}

bool Process::run_program() {
  if (done_ || stopped()) return false;
  if (!knows_step_) {
    const auto step = around_.step_of(group_->view().epoch);
    if (!step) return false;
    step_ = *step;
    knows_step_ = true;
  }
  if (advance_) {
    if (!advance_->done()) return false;
    const Status status = advance_->status();
    const Epoch epoch = advance_->outcome().epoch;
    advance_.reset();
    if (!status.is_ok()) return end_program("advance: " + status.message()), true;
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
  const std::vector<ProgramOp> ops = make_step(scenario_, step_);
  running_.reserve(ops.size());
  int number = step_ * kOpsPerStep;
  for (const ProgramOp& op : ops) {
    start_op(op, number++);
    if (stopped()) return true;
  }
  return true;
}

void Process::start_op(const ProgramOp& op, int number) {
  Running running;
  running.number = number;
  running.data = std::make_unique<OpData>(op, rank_.value, scenario_.ranks);
  std::vector<comm::OpRequest> requests{running.data->request()};
  if (op.is_shift) {
    running.spare.resize(op.count);
    requests[0].peer = {(rank_.value + 1) % scenario_.ranks};
    comm::OpRequest take;
    take.collective = comm::Collective::kRecv;
    take.dtype = DType::kU64;
    take.peer = {(rank_.value + scenario_.ranks - 1) % scenario_.ranks};
    take.output = {{reinterpret_cast<std::byte*>(running.spare.data()), op.count}};
    requests.push_back(take);
  }
  for (comm::OpRequest& request : requests) {
    Result<comm::Ran> ran = comm::Ran{};
    if (scenario_.brief && !op.is_shift) {
      ran = group_->run(std::move(request));
    } else if (auto work = group_->start(std::move(request)); work.is_ok()) {
      ran = comm::Ran{work.value(), nullptr};
    } else {
      ran = work.status();
    }
    if (!ran.is_ok()) return end_program("start: " + ran.status().message());
    if (ran.value().work) {
      running.works.push_back(ran.value().work);
    } else {
      running.ended = true;
      around_.ledger().on_ended(number_, number, *running.data, Status::ok(), *ran.value().outcome);
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
  running_.clear();
  if (scenario_.advances || lost_one_) {
    advance_ = group_->advance({});
  } else {
    ++step_;
  }
  return true;
}

void Process::end_op(Running& running) {
  for (const auto& work : running.works) {
    const Status status = work->status();
    const bool shift = running.data->op().is_shift;
    if (!shift) {
      around_.ledger().on_ended(number_, running.number, *running.data, status, work->outcome());
    }
    if (status.is_ok()) continue;
    const Status health = group_->health();
    if (!health.is_ok()) return end_program(health.message());
    if (status.code() != Code::kPeerLost) return end_program(status.message());
    if (scenario_.raise && !shift) lost_one_ = true;
  }
}

bool Process::drive_briefly(const std::function<bool(bool)>& step) {
  if (!tasks_.empty()) return false;
  for (int look = 0; look < 2; ++look) {
    if (step(look == 1)) break;
  }
  return true;
}

void Process::end_program(const std::string& why) {
  if (!ended_.empty()) return;
  ended_ = why.empty() ? "ended" : why;
  around_.log(number_, "ends: " + ended_);
}

// As close() does, without waiting.
bool Process::part() {
  if (!parting_) {
    parting_ = std::make_shared<ft::Leaving>();
    gives_up_ = clock_->now() + kPartingTime;
    group_->begin_leaving(parting_);
    return true;
  }
  if (!parting_->settled && clock_->now() < gives_up_) return false;
  [[maybe_unused]] const Status left = group_->close(Duration::zero());
  hub_.say_goodbye();
  end_program("left");
  return true;
}

void Process::tear_down() {
  hub_.set_joining(nullptr);
  if (group_) group_->fence("the simulation ends");
  run_tasks();
  running_.clear();
  advance_.reset();
  group_.reset();
  world_.reset();
  run_tasks();
}

std::string Process::state() const {
  std::string text =
      "process " + std::to_string(number_) + " (rank " + std::to_string(rank_.value) + ") ";
  if (!ended_.empty()) return text + "ended: " + ended_;
  if (coordination_) return text + "coordinates";
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
