// How the two ends of a simulated trunk call each other, and greet.
#include <algorithm>
#include <chrono>

#include "base/patience.h"
#include "comm/transport/trunk/lane_calls.h"
#include "sim/lanes/lane_world.h"

namespace holdfast::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Until a kernel repeats the first packet of a call, and one of a greeting.
constexpr Duration kFirstPatience = seconds(1);
constexpr Duration kGreetingPatience = milliseconds(200);
constexpr int kMostRepeats = 8;
// Between two tries of a direct way.
constexpr Duration kTryPause = seconds(1);
// A relay is that much farther.
constexpr int kRelayFactor = 2;

}  // namespace

std::shared_ptr<SimConnection> LaneWorld::connect(bool relayed) {
  PathTerms path;
  path.connection = ++last_connection_;
  path.latency = scenario_.latency * (relayed ? kRelayFactor : 1);
  path.bytes_per_ns = scenario_.bytes_per_ns;
  path.room = scenario_.room;
  path.loss_percent = scenario_.loss_percent;
  connections_.push_back(std::make_shared<SimConnection>(*this, path, relayed));
  return connections_.back();
}

// When what the end sends now arrives; kNever: not in time for any call.
Instant LaneWorld::passage(int from, const SimConnection& connection, Duration patience) const {
  Instant at = now_;
  Duration wait = patience;
  for (int i = 0; i < kMostRepeats; ++i) {
    const Instant there = at + connection.path().latency;
    if (!outages_.loses(from, connection.number(), there)) return there;
    at = at + wait;
    wait = 2 * wait;
  }
  return kNever;
}

void LaneWorld::call(int from, bool joins, bool relayed) {
  LaneEnd& here = end_at(from);
  if (!relayed) here.next_lane = now_ + comm::kLanePause;
  LaneCall made;
  made.connection = connect(relayed);
  made.from = from;
  made.joins = joins;
  made.trunk = joins ? here.trunk : ++last_trunk_;
  made.deadline = now_ + holdfast::patience(comm::kLaneTime, here.link->round_trip());
  const std::size_t place = calls_.size();
  const Duration trip = 2 * made.connection->path().latency;
  const bool no_way = (from == 1 && scenario_.one_calls) ||
                      (!relayed && scenario_.relayed && now_ < Instant{scenario_.direct_at});
  // The packet of the call, its answer, and the greeting.
  const Instant there = passage(from, *made.connection, kFirstPatience);
  const bool refused = now_ < here.refused_until && there != kNever;
  schedule(refused ? there + trip / 2 : made.deadline, LaneStep::kGivesUp, place);
  if (!no_way && !refused && there != kNever) schedule(there + trip, LaneStep::kHello, place);
  log(from, std::string("calls ") + (joins ? "for a lane" : "anew") + (relayed ? " by relay" : "") +
                ", connection " + std::to_string(made.connection->number()));
  calls_.push_back(std::move(made));
}

// The first one that lost its trunk, or was told so, calls; the other one waits for it.
void LaneWorld::call_anew() {
  LaneEnd& here = end_at(0);
  if (!here.link || here.closed || here.link->status().is_ok()) return;
  const bool calls = std::ranges::any_of(
      calls_, [](const LaneCall& call) { return !call.joins && call.state != CallState::kOver; });
  if (!calls && now_ >= next_new_call_) {
    next_new_call_ = now_ + comm::kLanePause;
    call(0, false, scenario_.relayed && now_ < Instant{scenario_.direct_at});
  }
  wake(0, now_ + comm::kLanePause);
}

void LaneWorld::call_directly() {
  LaneEnd& here = end_at(0);
  if (!here.link || here.closed) return;
  const bool stands = here.link->status().is_ok();
  if (stands && !here.link->is_down() && here.link->is_relayed()) call(0, true, false);
  schedule(now_ + kTryPause, LaneStep::kDirect, 0);
}

void LaneWorld::on_hello(std::size_t place) {
  LaneCall& call = calls_[place];
  if (call.state == CallState::kOver) return;
  const int number = call.connection->number();
  const int end = 1 - call.from;
  LaneEnd& here = end_at(end);
  if (outages_.loses(call.from, number, now_)) {
    const Instant again = passage(call.from, *call.connection, kGreetingPatience);
    if (again != kNever) schedule(again, LaneStep::kHello, place);
    return;
  }
  call.state = CallState::kAnswered;
  const bool has_trunk = here.link && here.link->status().is_ok() && here.trunk == call.trunk;
  call.welcome = here.link && !here.closed && (has_trunk || !call.joins);
  if (call.welcome && call.joins) {
    here.link->join(std::make_unique<SimStream>(call.connection, end));
    here.next_look = here.next_lane = {};
    log(end, "has a further lane, connection " + std::to_string(number));
  } else if (call.welcome) {
    renew(end, call.trunk, call.connection);
  }
  if (!call.welcome) call.connection->close(end);
  wake(end, now_);
  const Instant back = passage(end, *call.connection, kGreetingPatience);
  if (back != kNever) schedule(back, LaneStep::kWelcome, place);
}

void LaneWorld::on_welcome(std::size_t place) {
  LaneCall& call = calls_[place];
  if (call.state == CallState::kOver) return;
  LaneEnd& here = end_at(call.from);
  if (outages_.loses(1 - call.from, call.connection->number(), now_)) {
    const Instant again = passage(1 - call.from, *call.connection, kGreetingPatience);
    if (again != kNever) schedule(again, LaneStep::kWelcome, place);
    return;
  }
  call.state = CallState::kOver;
  const bool stands = here.link && here.link->status().is_ok() && here.trunk == call.trunk;
  if (here.link && !here.closed && !call.joins && call.welcome) {
    renew(call.from, call.trunk, call.connection);
  } else if (stands && call.joins && call.welcome) {
    here.link->join(std::make_unique<SimStream>(call.connection, call.from));
    here.next_look = here.next_lane = {};
    log(call.from, "has a further lane, connection " + std::to_string(call.connection->number()));
  } else {
    call.connection->close(call.from);
    if (stands && call.joins && !here.leaves) {
      log(call.from, "is told that the peer no longer has this trunk");
      here.severed = true;
      here.link->sever({Code::kPeerLost, "the peer no longer has this trunk"});
    }
  }
  wake(call.from, now_);
}

void LaneWorld::give_up(std::size_t place) {
  LaneCall& call = calls_[place];
  if (call.state == CallState::kOver) return;
  // Nobody else has a part in it.
  if (call.state == CallState::kCalls) call.connection->close(1 - call.from);
  call.state = CallState::kOver;
  call.connection->close(call.from);
  wake(call.from, now_);
}

std::size_t LaneWorld::calls_of(int end, bool relayed) const {
  return static_cast<std::size_t>(std::ranges::count_if(calls_, [&](const LaneCall& call) {
    return call.from == end && call.joins && call.state != CallState::kOver &&
           call.connection->is_relayed() == relayed;
  }));
}

void LaneWorld::renew(int end, std::uint64_t trunk,
                      const std::shared_ptr<SimConnection>& connection) {
  LaneEnd& here = end_at(end);
  log(end, "has trunk " + std::to_string(trunk) + " now");
  here.link->set_terms({trunk, scenario_.lanes});
  here.link->renew(std::make_unique<SimStream>(connection, end));
  here.trunk = trunk;
  here.severed = false;
  here.next_look = here.next_lane = {};
  ledger_.begin(end, trunk);
}

}  // namespace holdfast::sim
