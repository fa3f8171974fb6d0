#include "sim/run.h"

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <sstream>

#include "base/yield_point.h"
#include "comm/engine/host_area.h"

namespace holdfast::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

// By then every op has ended or run into its time limit, unless something hangs.
constexpr Duration kPatience = seconds(70);
// A world that needs more events is in an endless loop.
constexpr std::uint64_t kMostEvents = 5'000'000;
// How long a process that says goodbye takes to end.
constexpr Duration kFarewell = microseconds(300);

}  // namespace

Instant Simulation::local_time(int process) const {
  const auto percent = host(process).drift.count();
  return {now_.since_origin + now_.since_origin * percent / 100};
}

int Simulation::copies(int from, int to, const comm::OutFrame& frame) {
  const comm::FrameHeader& header = frame.header;
  mark(from, static_cast<std::uint64_t>(to));
  mark(static_cast<int>(header.kind), header.payload_bytes + header.key.op);
  if (comm::carries_data(header.kind)) look_at_data(from, header);
  const bool whole = header.payload_bytes == header.total_bytes;
  if (header.kind != comm::FrameKind::kMembership || !whole) return 1;
  const auto message = ft::decode(frame.payload);
  if (with_log_) {
    const std::string text = message.is_ok() ? ft::to_string(message.value()) : "a message";
    log(from, "sends " + text + " to process " + std::to_string(to));
  }
  if (message.is_ok()) notice(When::kSends, from, static_cast<int>(message.value().kind));
  if (message.is_ok()) look_at_statement(message.value());
  return weather_.copies(now_, rank_of(from), random_);
}

// A stranger may have been told what anybody was told.
void Simulation::look_at_statement(const ft::Message& message) {
  const bool whole = message.kind == ft::MessageKind::kGreet ||
                     (message.kind == ft::MessageKind::kDecide && message.view.epoch.value > 0);
  if (!whole || message.statement.empty()) return;
  const bool is_new = std::none_of(shown_.begin(), shown_.end(), [&](const ft::Message& shown) {
    return shown.statement == message.statement;
  });
  if (is_new) shown_.push_back(message);
}

// Checks that no data of a member that was voted out is in a later view.
void Simulation::look_at_data(int from, const comm::FrameHeader& header) {
  const CommId world = world_of(header.key.comm);
  if (!ledger_.is_outside(world, header.key.epoch, host(from).process->id())) return;
  ledger_.on_wrong(from, "G4: sends data of epoch " + std::to_string(header.key.epoch.value) +
                             ", whose view it is not in");
}

Duration Simulation::lateness(int from, int to, const comm::OutFrame& frame) {
  if (!comm::carries_data(frame.header.kind)) return {};
  return weather_.lateness(rank_of(from), rank_of(to));
}

void Simulation::on_view(int process, CommId world, const ft::WorldView& view) {
  if (!host(process).alive) return;
  ledger_.on_view(process, world, view);
  if (views_.emplace(std::pair(world, view.epoch.value), view).second) {
    look_for_the_buried(process, world, view);
  }
  notice(When::kAdopts, process, static_cast<int>(view.epoch.value));
}

// A view casts out the members that it is without, and that may live. Whoever is in it no more, and
// is not cast out, has ended, or has said that it takes no part any more.
void Simulation::look_for_the_buried(int process, CommId world, const ft::WorldView& view) {
  const auto before = views_.find({world, view.epoch.value - 1});
  if (before == views_.end()) return;
  for (const MemberId member : before->second.present()) {
    if (view.has(member) || view.has_outcast(member)) continue;
    const bool lives = std::any_of(hosts_.begin(), hosts_.end(), [&](const Host& h) {
      const Process& one = *h.process;
      // Somebody else may call itself by a dead member's id.
      const bool is_in = one.admitted() && !one.stopped() && !one.is_leaving();
      return one.id() == member && h.alive && is_in;
    });
    if (!lives) continue;
    ledger_.on_wrong(process, "G4: view " + std::to_string(view.epoch.value) + " takes member " +
                                  std::to_string(member.value) + " for dead, and it lives");
  }
}

void Simulation::on_op(int process, int op, bool ended) {
  notice(ended ? When::kEnds : When::kBegins, process, op);
}

void Simulation::wake(int process, Instant at) {
  Host& h = host(process);
  at = std::max({at, now_, h.paused_until});
  if (!h.alive || h.scheduled <= at) return;
  h.scheduled = at;
  events_.push({at, ++order_, process, -1, {}, -1});
}

void Simulation::log(int process, const std::string& text) {
  if (!with_log_) return;
  std::ostringstream line;
  line << std::fixed << std::setprecision(3) << std::setw(10)
       << std::chrono::duration<double, std::milli>(now_.since_origin).count() << " ms  ";
  if (process >= 0) line << "process " << process << " (rank " << rank_of(process) << "): ";
  log_.push_back(line.str() + text);
}

std::optional<int> Simulation::step_of(const comm::View& view) const {
  const auto found = steps_.find(view.epoch.value);
  if (found != steps_.end()) return found->second;
  const auto& members = view.members;
  const bool known = std::any_of(hosts_.begin(), hosts_.end(), [&](const Host& h) {
    const bool here = std::find(members.begin(), members.end(), h.process->id()) != members.end();
    return here && h.process->knows_step();
  });
  return known ? std::nullopt : std::optional(saved_);
}

void Simulation::on_boundary(int process, Epoch epoch, int next_step) {
  if (!steps_.emplace(epoch.value, next_step).second) return;
  log(process, "passes the boundary before step " + std::to_string(next_step));
}

// Where a coordinator signs its decisions, nobody is told that it is out by any other word. In an
// elastic group that may be because an older world of its name goes on.
void Simulation::on_told(int process) {
  if (!scenario_.signs || !scenario_.outside || scenario_.elastic || !host(process).alive) return;
  const Process& told = *host(process).process;
  const auto is_out = [&](CommId group, const ft::WorldView& view) {
    const CommId world = world_of(group);
    const bool recorded = std::any_of(
        store_.record.worlds.begin(), store_.record.worlds.end(), [&](const auto& entry) {
          const ft::WorldRecord& said = entry.second;
          return said.world == world && said.epoch > view.epoch &&
                 std::find(said.members.begin(), said.members.end(), told.id()) ==
                     said.members.end();
        });
    return recorded || notary_.is_out(world, view.epoch, told.id());
  };
  if (is_out(kFirstWorld, told.world_view())) return;
  if (scenario_.two_worlds && is_out(kOtherWorld, told.second_view())) return;
  ledger_.on_wrong(process, "G4: was told that it is out, and no view is without it");
}

void Simulation::on_saved(int process, int next_step) {
  if (host(process).alive) saved_ = std::max(saved_, next_step);
}

// Another process's memory, as long as that process lives.
class Simulation::Reach final : public comm::ProcessMemory {
 public:
  Reach(const Simulation& simulation, int process) : simulation_(simulation), process_(process) {}
  bool read(std::byte* to, std::uint64_t address, std::uint64_t bytes) const override {
    if (!simulation_.host(process_).alive) return false;
    std::memcpy(to, reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(address)),
                bytes);
    return true;
  }

 private:
  const Simulation& simulation_;
  int process_;
};

// Memory of a pool: all simulated processes share one, and mapped memory outlives its owner.
class Simulation::Pool final : public comm::OwnPool, public comm::PeerPool {
 public:
  comm::PoolPlace find(const std::byte* data, std::uint64_t, comm::PoolDirectory&) override {
    return {1, reinterpret_cast<std::uintptr_t>(data)};
  }
  const std::byte* at(const comm::PoolDirectory&, const comm::PoolPlace& place,
                      std::uint64_t) override {
    return reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(place.offset));
  }
};

comm::BellWords& Simulation::bell(int process) {
  while (bells_.size() <= static_cast<std::size_t>(process)) bells_.emplace_back();
  return bells_[static_cast<std::size_t>(process)];
}

// An area as a process has mapped it: another one, or its owner.
comm::HostPeer Simulation::area_of(int owner, const std::shared_ptr<comm::Segment>& area,
                                   int user) {
  comm::HostPeer peer{area, comm::Bell(&bell(owner)),
                      [this, user, owner] {
                        notice(When::kRings, user, 0);
                        wake(owner, arrival(user, owner));
                      },
                      scenario_.seed % 2 == 0 ? std::make_shared<Reach>(*this, owner) : nullptr};
  // In some worlds all ranks have their data in pools, in some every other rank.
  const auto pooled = scenario_.seed / 2 % 4;
  if (pooled == 0 || (pooled == 1 && rank_of(owner) % 2 == 0)) peer.own_pool = pool_;
  peer.pool = pool_;
  return peer;
}

std::vector<comm::HostPeer> Simulation::flat_of(int process) {
  std::vector<comm::HostPeer> peers;
  if (!scenario_.flat) return peers;
  for (int r = 0; r < scenario_.ranks; ++r) {
    const Area& area = areas_[static_cast<std::size_t>(r)];
    peers.push_back(area_of(r, area.segment, process));
    if (r == process) peers.back().room = area.room;
  }
  return peers;
}

group::OwnArea Simulation::make_area(int process) {
  auto segment = std::make_shared<comm::Segment>(
      std::move(comm::Segment::create_private(sizeof(comm::HostArea))).value());
  areas_.push_back({process, segment});
  return {std::to_string(areas_.size() - 1), area_of(process, segment, process)};
}

// In some worlds some processes have no room to map other processes' areas.
std::optional<comm::HostPeer> Simulation::open_area(int process, const std::string& name) {
  if (scenario_.seed % kCrampedWorlds == 1 && process % 3 == 1) return std::nullopt;
  const Area& area = areas_.at(std::stoul(name));
  return area_of(area.owner, area.segment, process);
}

void Simulation::found_all() {
  ft::WorldView view;
  view.epoch = {1};
  const auto ranks = static_cast<std::size_t>(scenario_.ranks);
  pool_ = std::make_shared<Pool>();
  // There is room for coordinators, too, so that references to hosts stay valid.
  hosts_.reserve(ranks + 2 * scenario_.faults.size() + 2);
  holders_.reserve(ranks);
  for (int r = 0; r < scenario_.ranks; ++r) {
    const MemberId id{1000 + random_.below(1'000'000) * 1000 + static_cast<std::uint64_t>(r)};
    view.members.push_back(id);
    view.cards.push_back("host" + std::to_string(r % scenario_.hosts));
    Host h;
    h.process = std::make_shared<Process>(scenario_, r, id, Rank{r}, *this);
    hosts_.push_back(std::move(h));
    holders_.push_back(r);
    if (!scenario_.flat) continue;
    auto segment = std::make_shared<comm::Segment>(
        std::move(comm::Segment::create_private(comm::AreaRoom::bytes())).value());
    areas_.push_back({r, segment, std::make_shared<comm::AreaRoom>(segment, true)});
  }
  for (int a = 0; a < scenario_.ranks; ++a) {
    const auto near = ft::neighbours(view, host(a).process->id(), scenario_.outside);
    for (int b = a + 1; b < scenario_.ranks; ++b) {
      const MemberId other = host(b).process->id();
      const bool linked =
          !scenario_.sparse || std::find(near.begin(), near.end(), other) != near.end();
      if (linked) link(a, b);
    }
  }
  for (int r = 0; r < scenario_.ranks; ++r) {
    host(r).process->found(view, flat_of(r));
    wake(r, now_ + microseconds(random_.below(500)));
  }
  if (scenario_.outside) start_coordinator();
}

// Wakes the process when the next frame or closing on its way to it arrives.
void Simulation::look_at_wires(int process) {
  Instant next{Duration::max()};
  incoming_.resize(hosts_.size());
  for (const Wire* wire : incoming_[static_cast<std::size_t>(process)]) {
    if (!wire->packets.empty()) {
      // A frame that has come and was not taken belongs to a link that failed.
      if (wire->packets.front().at > now_) next = std::min(next, wire->packets.front().at);
    } else if (wire->closes > now_) {
      next = std::min(next, wire->closes);
    }
  }
  if (next.since_origin != Duration::max()) wake(process, next);
}

void Simulation::step(int process) {
  Host& h = host(process);
  if (!h.alive) return;
  if (now_ < h.paused_until) return wake(process, h.paused_until);
  mark(process, static_cast<std::uint64_t>(now_.since_origin.count()));
  for (auto at = connecting_.begin(); at != connecting_.end();) {
    const auto [a, b] = *at;
    if (a != process && b != process) {
      ++at;
      continue;
    }
    at = connecting_.erase(at);
    if (host(a).alive && host(b).alive) link(a, b);
  }
  std::erase_if(refusals_, [&](const Refusal& refusal) {
    if (refusal.from != process || refusal.at > now_) return false;
    const bool told = refusal.word == Refusal::Word::kWitness && h.process->knows(refusal.to);
    if (told) told_.emplace(process, refusal.to);
    h.process->on_end(refusal.to, refusal.word);
    return true;
  });
  if (scenario_.flat) {
    bell(process).sleeping.store(static_cast<std::uint32_t>(comm::Sleep::kOnSocket),
                                 std::memory_order_relaxed);
  }
  // A program that fails in one of its worlds has ended in the other, too.
  const auto ends = [&] {
    return h.process->has_left() || (scenario_.two_worlds && h.process->stopped());
  };
  const bool was_here = !ends();
  running_ = process;
  h.process->step();
  running_ = -1;
  if (was_here && ends()) {
    events_.push({now_ + kFarewell, ++order_, process, -1, SimEvent::Other::kEnds, -1});
  }
  look_at_wires(process);
  const Instant local = local_time(process);
  const Instant next = h.process->next_deadline();
  if (next.since_origin == Duration::max()) return;
  wake(process, now_ + std::max<Duration>(next - local, microseconds(1)));
}

bool Simulation::is_over() {
  if (!ledger_.ok() || gave_up_) return true;
  return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& h) {
    return !h.alive || h.process->done() || h.process->stopped() || !h.process->admitted();
  });
}

RunVerdict Simulation::run() {
  at_yield_points([this] { suspend(); });
  found_all();
  for (const Fault& fault : scenario_.faults) {
    waiting_.push_back(fault.trigger.when == When::kStart ? 1 : fault.trigger.count);
  }
  happened_.resize(waiting_.size());
  notice(When::kStart, -1, 0);
  RunVerdict verdict;
  while (!events_.empty() && events_.top().at < healed_ + kPatience) {
    const SimEvent event = events_.top();
    events_.pop();
    now_ = std::max(now_, event.at);
    ++verdict.events;
    take(event);
    if (verdict.events > kMostEvents) ledger_.on_wrong(event.process, "G3: too many events");
    if (now_ > deadline()) look_for_late();
    if (is_over()) break;
  }
  judge(verdict);
  verdict.violation = ledger_.violation();
  happenings_.mix(ledger_.hash());
  verdict.hash = happenings_.value();
  verdict.ops = ledger_.ops();
  verdict.float_sums = ledger_.float_sums();
  verdict.took = now_.since_origin;
  verdict.fired = happened_;
  for (Host& h : hosts_) {
    if (h.alive) log(-1, h.process->state());
    h.process->tear_down();
  }
  at_yield_points(nullptr);
  verdict.log = std::move(log_);
  return verdict;
}

void Simulation::take(const SimEvent& event) {
  if (event.fault >= 0) return happen(static_cast<std::size_t>(event.fault));
  switch (event.what) {
    case SimEvent::Other::kEnds:
      // A program that failed in one world ends in the other, too, where others may wait for it.
      if (!host(event.process).process->has_left()) healed_ = std::max(healed_, now_);
      crash(event.process);
      return;
    case SimEvent::Other::kCoordinator: return start_coordinator();
    case SimEvent::Other::kMoved: return end_first_coordinator(event.process);
    case SimEvent::Other::kRelink: return relink(event.process, event.peer);
    case SimEvent::Other::kRedial:
      // Both processes call, and the first call that gets through is enough.
      if (!hears(event.process, event.peer)) relink(event.process, event.peer);
      return;
    case SimEvent::Other::kNone: break;
  }
  if (host(event.process).scheduled != event.at) return;  // woken earlier
  host(event.process).scheduled = {Duration::max()};
  step(event.process);
}

RunVerdict simulate(const Scenario& scenario, bool with_log) {
  return Simulation(scenario, with_log).run();
}

}  // namespace holdfast::sim
