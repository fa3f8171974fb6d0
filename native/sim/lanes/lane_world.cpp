#include "sim/lanes/lane_world.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <sstream>

#include "comm/transport/trunk/lane_calls.h"

namespace holdfast::sim {
namespace {

using comm::TrunkStream;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kBeat = milliseconds(500);
// A world that needs more steps is in an endless loop.
constexpr std::uint64_t kMostSteps = 2'000'000;
constexpr int kMostPumps = 1'000;
// Until all has arrived, beside the time that the bytes take: stalls are seen after two heartbeats,
// calls last a second, and are begun every 250 ms.
constexpr Duration kLatest = seconds(8);
constexpr int kLatestTrips = 60;
constexpr int kLatestTimes = 8;

}  // namespace

LaneWorld::LaneWorld(const LaneScenario& scenario, bool with_log)
    : scenario_(scenario), with_log_(with_log), random_(scenario.seed * 2 + 1) {}

void LaneWorld::schedule(Instant at, LaneStep what, std::size_t place) {
  events_.push({at, ++order_, what, place});
}

void LaneWorld::wake(int end, Instant at) {
  if (over_ || at == kNever) return;
  at = std::max(at, now_);
  if (end_at(end).scheduled <= at) return;
  end_at(end).scheduled = at;
  schedule(at, LaneStep::kLook, static_cast<std::size_t>(end));
}

void LaneWorld::log(int end, const std::string& text) {
  if (!with_log_) return;
  std::ostringstream line;
  line << std::fixed << std::setprecision(3) << std::setw(10)
       << std::chrono::duration<double, std::milli>(now_.since_origin).count() << " ms  ";
  if (end >= 0) line << "end " << end << ": ";
  verdict_.log.push_back(line.str() + text);
}

void LaneWorld::found() {
  last_trunk_ = 1;
  const auto connection = connect(scenario_.relayed);
  for (const int end : {0, 1}) {
    LaneEnd& here = end_at(end);
    here.trunk = last_trunk_;
    here.link = std::make_unique<comm::TrunkLink>(std::make_unique<SimStream>(connection, end),
                                                  comm::TrunkTerms{here.trunk, scenario_.lanes},
                                                  std::make_unique<SimWatch>(end));
    ledger_.begin(end, here.trunk);
    wake(end, now_);
  }
}

// LaneStep happens at times that are known from the beginning.
void LaneWorld::plan() {
  const auto sends = static_cast<std::uint64_t>(scenario_.sends.count());
  healed_ = Instant{scenario_.sends};
  for (const std::size_t end : {0U, 1U}) {
    for (int i = 0; i < scenario_.frames; ++i) {
      schedule({Duration(random_.below(sends))}, LaneStep::kSend, end);
    }
    for (int i = 0; i < scenario_.messages; ++i) {
      schedule({Duration(random_.below(sends))}, LaneStep::kPost, end);
    }
  }
  for (std::size_t i = 0; i < scenario_.faults.size(); ++i) {
    const LaneFault& fault = scenario_.faults[i];
    schedule({fault.at}, LaneStep::kFault, i);
    healed_ = std::max(healed_, Instant{fault.at + fault.lasts});
  }
  if (scenario_.relayed) {
    schedule({scenario_.direct_at}, LaneStep::kDirect, 0);
    healed_ = std::max(healed_, Instant{scenario_.direct_at});
  }
  if (scenario_.ending != LaneEnding::kDelivered)
    schedule({scenario_.ends_at}, LaneStep::kEnding, 0);
}

LaneVerdict LaneWorld::run() {
  found();
  plan();
  while (!events_.empty()) {
    const LaneEvent event = events_.top();
    events_.pop();
    now_ = std::max(now_, event.at);
    take(event);
    if (++verdict_.steps > kMostSteps) ledger_.wrong("too many steps");
    if (is_over()) break;
    const bool is_due = scenario_.ending == LaneEnding::kDelivered && now_ > healed_ + bound();
    if (is_due) ledger_.wrong("what was sent has not arrived in time");
    if (!ledger_.violation().empty()) break;
  }
  over_ = true;
  verdict_.violation = ledger_.violation();
  verdict_.frames = ledger_.frames();
  verdict_.lanes = static_cast<std::uint64_t>(last_connection_);
  verdict_.took = now_.since_origin;
  verdict_.late = std::max(now_ - healed_, Duration::zero());
  for (const LaneEnd& end : ends_) {
    if (end.link) verdict_.again += end.link->measured().trunk.sent_again.value();
  }
  happenings_.mix(verdict_.again);
  verdict_.hash = happenings_.value();
  for (LaneEnd& end : ends_) end.link.reset();
  return std::move(verdict_);
}

void LaneWorld::take(const LaneEvent& event) {
  const int end = static_cast<int>(event.place);
  switch (event.what) {
    case LaneStep::kLook:
      if (end_at(end).scheduled != event.at) return;  // woken earlier
      end_at(end).scheduled = kNever;
      return step(end);
    case LaneStep::kFault: verdict_.faults += happen(scenario_.faults[event.place]) ? 1 : 0; return;
    case LaneStep::kHello: return on_hello(event.place);
    case LaneStep::kWelcome: return on_welcome(event.place);
    case LaneStep::kGivesUp: return give_up(event.place);
    case LaneStep::kSend: return send(end);
    case LaneStep::kPost: return post(end);
    case LaneStep::kDirect: return call_directly();
    case LaneStep::kEnding: return begin_ending();
    case LaneStep::kCloses:
      return close_when_said({Duration(static_cast<std::int64_t>(event.place))});
    case LaneStep::kToldGone: return close_trunk(end, "it is told that the peer has gone");
  }
}

void LaneWorld::step(int end) {
  LaneEnd& here = end_at(end);
  if (!here.link) return;
  comm::TrunkLink& link = *here.link;
  const bool sends = link.status().is_ok() && !here.leaves;
  if (sends && now_ >= here.next_beat) {
    ledger_.send(end, link.session(), here.trunk, TrunkStream::kControl, 0);
    here.next_beat = now_ + kBeat;
  }
  link.set_readable();
  for (int i = 0; i < kMostPumps && link.pump(); ++i) {
  }
  ledger_.take(end, link.session(), here.trunk);
  happenings_.mix(static_cast<std::uint64_t>(now_.since_origin.count()) * 2 +
                  static_cast<std::uint64_t>(end));
  happenings_.mix(link.received());
  check(end);
  if (!here.closed) tend(end);
  look_at_connections(end);
  if (!here.closed && sends) wake(end, here.next_beat);
}

void LaneWorld::look_at_connections(int end) {
  std::erase_if(connections_, [](const auto& connection) { return connection->is_over(); });
  for (const auto& connection : connections_) wake(end, connection->next_look(end));
}

// As the runtime does.
void LaneWorld::tend(int end) {
  LaneEnd& here = end_at(end);
  comm::TrunkLink& link = *here.link;
  if (!link.status().is_ok()) return call_anew();
  if (now_ >= here.next_look) {
    link.look(now_);
    if (end == 0) link.trim(now_);
    here.next_look = now_ + (link.busy() ? comm::kLookPause : kBeat);
  }
  const bool asks_relay = link.is_down() && end == 0 && scenario_.relayed;
  if (asks_relay && now_ >= here.next_relay && calls_of(end, true) == 0) {
    here.next_relay = now_ + comm::kLanePause;
    call(end, true, true);
  }
  if (now_ >= here.next_lane) {
    const comm::LaneCaller caller{end == 0, link.is_relayed(), calls_of(end, false)};
    const std::size_t calls = comm::lanes_to_call(link, caller);
    for (std::size_t i = 0; i < calls; ++i) call(end, true, false);
  }
  // Where there are too many calls, it goes on when one of them has ended.
  wake(end, link.is_down() && here.next_lane > now_ ? here.next_lane : here.next_look);
}

void LaneWorld::check(int end) {
  const LaneEnd& here = end_at(end);
  const comm::TrunkLink& link = *here.link;
  const std::string who = "end " + std::to_string(end) + ": ";
  const bool expected = here.severed || here.closed || ledger_.has_goodbye_at(end);
  if (!link.status().is_ok() && !expected) {
    ledger_.wrong(who + "its trunk failed: " + link.status().message());
  }
  std::uint64_t confirmed = 0;
  for (const auto stream : {TrunkStream::kControl, TrunkStream::kBulk}) {
    const comm::SentFrames& kept = link.kept(stream);
    confirmed += kept.confirmed_bytes();
    const bool many = kept.frames() > comm::kMostUnconfirmed ||
                      kept.bytes() > comm::kMostControls + comm::kMaxFramePayload;
    if (many) ledger_.wrong(who + "more is kept than the terms say");
  }
  const LaneEnd& other = end_at(1 - end);
  if (!other.link || other.trunk != here.trunk || ledger_.has_messages()) return;
  if (confirmed > ledger_.taken(1 - end)) ledger_.wrong(who + "is told of more than has arrived");
}

void LaneWorld::send(int end) {
  LaneEnd& here = end_at(end);
  if (!here.link || !here.link->status().is_ok() || here.leaves) return;
  const auto stream = random_.chance(30) ? TrunkStream::kControl : TrunkStream::kBulk;
  std::size_t most = random_.chance(85) ? 400 : random_.chance(85) ? 4'000 : 60'000;
  if (scenario_.large && random_.chance(20)) most = 500'000;
  const std::size_t bytes = 1 + random_.below(most);
  bytes_ += bytes;
  ledger_.send(end, here.link->session(), here.trunk, stream, bytes);
  wake(end, now_);
}

void LaneWorld::post(int end) {
  LaneEnd& here = end_at(end);
  LaneEnd& other = end_at(1 - end);
  const bool stand = here.link && other.link && here.link->status().is_ok() &&
                     other.link->status().is_ok() && here.trunk == other.trunk;
  if (!stand || here.leaves || other.leaves) return;
  const std::size_t bytes = 1 + random_.below(scenario_.large ? 3'000'000 : 100'000);
  bytes_ += bytes;
  ledger_.post(end, here.link->session(), other.link->session(), here.trunk, bytes);
  wake(end, now_);
  wake(1 - end, now_);
}

// How long after the last fault everything has arrived.
Duration LaneWorld::bound() const {
  const double trip = 2 * static_cast<double>(scenario_.latency.count());
  const double rate = std::min(scenario_.bytes_per_ns, static_cast<double>(scenario_.room) / trip);
  const auto bytes = Duration(static_cast<std::int64_t>(static_cast<double>(bytes_) / rate));
  return kLatest + kLatestTrips * scenario_.latency + kLatestTimes * bytes;
}

bool LaneWorld::is_over() {
  if (scenario_.ending != LaneEnding::kDelivered) {
    return left_at_ != kNever && now_ > left_at_ + seconds(1);
  }
  if (now_ < healed_) return false;
  const bool stand = std::ranges::all_of(
      ends_, [](const LaneEnd& end) { return end.link->status().is_ok() && !end.link->is_down(); });
  return stand && ledger_.has_all_of(0) && ledger_.has_all_of(1);
}

LaneVerdict simulate_lanes(const LaneScenario& scenario, bool with_log) {
  return LaneWorld(scenario, with_log).run();
}

}  // namespace holdfast::sim
