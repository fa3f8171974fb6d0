// LaneStep goes wrong below a simulated trunk.
#include <algorithm>
#include <chrono>

#include "sim/lanes/lane_world.h"

namespace holdfast::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Whoever says goodbye waits so long for others to have what it sent, and looks so often.
constexpr Duration kGoodbyeTime = seconds(3);
constexpr Duration kGoodbyePause = milliseconds(10);
// Until the other one takes it for gone: when it heard the goodbye, and when it did not.
constexpr Duration kHeardTime = milliseconds(500);
constexpr Duration kSilenceTime = seconds(5);

}  // namespace

// LaneStep `from` sends is lost from now on.
void LaneWorld::lose(int from, int connection, Instant until) {
  outages_.add(from, connection, now_, until);
  for (const auto& one : connections_) {
    if (connection == kAllConnections || one->number() == connection) one->replan();
  }
}

std::shared_ptr<SimConnection> LaneWorld::pick(const LaneFault& fault) const {
  std::vector<std::shared_ptr<SimConnection>> open;
  for (const auto& one : connections_) {
    if (!one->is_closed(0) && !one->is_closed(1)) open.push_back(one);
  }
  return open.empty() ? nullptr : open[fault.lane % open.size()];
}

bool LaneWorld::cut(const LaneFault& fault) {
  if (fault.kind == LaneFaultKind::kCutAll) {
    for (const auto& one : connections_) one->cut();
    return !connections_.empty();
  }
  const auto one = pick(fault);
  if (one) one->cut();
  return one != nullptr;
}

bool LaneWorld::stall(const LaneFault& fault) {
  const Instant until = now_ + fault.lasts;
  const auto one = pick(fault);
  if (!one) return false;
  lose(fault.end, one->number(), until);
  if (fault.kind == LaneFaultKind::kStallLane) lose(1 - fault.end, one->number(), until);
  return true;
}

// Of one connection, or of all that there are: what is called later gets through.
bool LaneWorld::expire(const LaneFault& fault) {
  std::vector<std::shared_ptr<SimConnection>> mute = connections_;
  if (fault.kind == LaneFaultKind::kExpireLane) mute.assign(1, pick(fault));
  for (const auto& one : mute) {
    if (!one) return false;
    for (const int end : {0, 1}) lose(end, one->number(), kNever);
  }
  return !mute.empty();
}

bool LaneWorld::give_trunk_up(int end) {
  LaneEnd& here = end_at(end);
  if (!here.link || !here.link->status().is_ok() || here.leaves || here.closed) return false;
  here.severed = true;
  here.link->sever({Code::kSystem, "given up"});
  wake(end, now_);
  return true;
}

bool LaneWorld::happen(const LaneFault& fault) {
  log(-1, "fault: " + lane_fault_name(fault.kind));
  switch (fault.kind) {
    case LaneFaultKind::kCutLane:
    case LaneFaultKind::kCutAll: return cut(fault);
    case LaneFaultKind::kStallLane:
    case LaneFaultKind::kHalfLane: return stall(fault);
    case LaneFaultKind::kFlap:
    case LaneFaultKind::kOneWay:
      lose(fault.end, kAllConnections, now_ + fault.lasts);
      if (fault.kind == LaneFaultKind::kFlap) {
        lose(1 - fault.end, kAllConnections, now_ + fault.lasts);
      }
      return true;
    case LaneFaultKind::kExpireLane:
    case LaneFaultKind::kExpireAll: return expire(fault);
    case LaneFaultKind::kRefuse: end_at(fault.end).refused_until = now_ + fault.lasts; return true;
    case LaneFaultKind::kRenew: return give_trunk_up(fault.end);
  }
  return false;
}

void LaneWorld::begin_ending() {
  const int leaver = scenario_.leaver;
  LaneEnd& here = end_at(leaver);
  if (scenario_.ending == LaneEnding::kGoodbye) {
    log(leaver, "says goodbye");
    here.leaves = true;
    if (here.link->status().is_ok()) ledger_.send_goodbye(leaver, here.link->session());
    wake(leaver, now_);
    return close_when_said(now_);
  }
  // Its host says nothing any more, or its process ends.
  const bool vanishes = random_.chance(50);
  log(leaver, vanishes ? "vanishes" : "ends");
  here.closed = true;
  if (vanishes) {
    for (const int end : {0, 1}) lose(end, kAllConnections, kNever);
  }
  here.link.reset();
  const Duration told = milliseconds(random_.below(3'000));
  schedule(now_ + told, LaneStep::kToldGone, static_cast<std::size_t>(1 - leaver));
}

// Closes once the other side has confirmed everything, or after a while.
void LaneWorld::close_when_said(Instant since) {
  const int leaver = scenario_.leaver;
  LaneEnd& here = end_at(leaver);
  LaneEnd& other = end_at(1 - leaver);
  if (ledger_.has_goodbye_at(1 - leaver) && !other.told) {
    other.told = true;
    schedule(now_ + kHeardTime, LaneStep::kToldGone, static_cast<std::size_t>(1 - leaver));
  }
  const comm::TrunkLink& link = *here.link;
  const bool stands = link.status().is_ok();
  const bool said = stands && !link.busy() && !link.session().wants_to_send();
  if (!said && stands && now_ < since + kGoodbyeTime) {
    const auto began = static_cast<std::size_t>(since.since_origin.count());
    return schedule(now_ + kGoodbyePause, LaneStep::kCloses, began);
  }
  const bool same = here.trunk == other.trunk && other.link->status().is_ok();
  if (said && same && !ledger_.has_messages() && !ledger_.has_all_of(leaver)) {
    ledger_.wrong("end " + std::to_string(leaver) + " was told that all it sent had arrived");
  }
  close_trunk(leaver, "it leaves");
  if (other.told) return;
  other.told = true;
  schedule(now_ + kSilenceTime, LaneStep::kToldGone, static_cast<std::size_t>(1 - leaver));
}

void LaneWorld::close_trunk(int end, const char* why) {
  LaneEnd& here = end_at(end);
  if (!here.link || here.closed) return;
  log(end, why);
  here.closed = true;
  here.link->sever({Code::kPeerLost, why});
  ledger_.take(end, here.link->session(), here.trunk);
  ledger_.close(end);
  if (end != scenario_.leaver) left_at_ = now_;
  // It is looked at once more, when nothing may come.
  wake(end, now_ + milliseconds(900));
}

}  // namespace holdfast::sim
