// What a trunk learns when it looks at its lanes: which have stalled, how many are worth having,
// how much may be unconfirmed; and what it tells of that.
#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/patience.h"
#include "base/planted.h"
#include "comm/transport/trunk/lane_calls.h"
#include "comm/transport/trunk/trunk_link.h"

namespace holdfast::comm {
namespace {

// What is longer does not go twice.
constexpr std::size_t kEchoBytes = 1024;

}  // namespace

void TrunkLink::look(Instant now) {
  std::int64_t least = 0;
  std::int64_t now_of_bulk = 0;
  for (const auto& lane : lanes_) {
    const TcpPath before = lane->path();
    lane->look();
    const TcpPath& path = lane->path();
    const auto lower = [](std::int64_t a, std::int64_t b) { return a == 0 ? b : std::min(a, b); };
    if (path.least_round_trip_ns > 0) least = lower(least, path.least_round_trip_ns);
    const std::uint64_t arrived = path.arrived - before.arrived;
    if (arrived >= kMaxLanePayload / 8) now_of_bulk = lower(now_of_bulk, path.round_trip_ns);
    arrived_ += arrived;
    sent_again_ += path.sent_again - before.sent_again;
  }
  if (now_of_bulk > 0) bulk_round_trip_ = Duration(now_of_bulk);
  give_up_stalled();
  if (least > 0) round_trip_ = Duration(least);
  const auto carrying = static_cast<unsigned>(lanes_.size() - first_bulk(lanes_.size()));
  // While nothing gets through, what is delivered says nothing of the path.
  const bool busy = std::exchange(waited_, false) && !is_stalled();
  growth_.look({now, arrived_, busy && pace_.rate() == 0, round_trip_, carrying});
  try_controls(now, busy);
  keep_pace(now, busy);
  probe(now);
  echo();
  const double path =
      static_cast<double>(growth_.rate()) * std::chrono::duration<double>(round_trip_).count();
  window_ = std::min(kMostWindow, kLeastWindow + 2 * static_cast<std::uint64_t>(path));
  cuts_.look(now, is_down());
  look_at_path();
}

void TrunkLink::try_controls(Instant now, bool busy) {
  std::vector<ControlTrial::LaneDelivery> lanes;
  const std::size_t first = first_bulk(lanes_.size());
  for (std::size_t i = first; i < lanes_.size() && i < first + growth_.wanted(); ++i) {
    lanes.push_back({lanes_[i]->id(), lanes_[i]->control(), lanes_[i]->path().delivered});
  }
  const bool known = trial_.better().has_value();
  trial_.look(now, busy, round_trip_, lanes);
  if (known || !trial_.better()) return;
  for (const auto& lane : lanes_) lane->set_control(*trial_.better());
}

void TrunkLink::keep_pace(Instant now, bool busy) {
  pace_.look({now, arrived_, sent_again_, busy, bulk_round_trip_, round_trip_});
  const std::size_t first = first_bulk(lanes_.size());
  const std::size_t bulk = std::min<std::size_t>(lanes_.size() - first, growth_.wanted());
  // Lanes that come and go leave the others their part: who has less for a while is slow to take
  // more again.
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i]->set_pace(i < first ? 0 : pace_.rate() / bulk);
  }
}

// A lone heartbeat that is lost is sent again by the kernel's timer, after 200 ms and more, and
// what comes after it waits for it. So it goes over a second lane as well, a little later, when a
// queue that was full may have room. What follows it in its own lane tells the kernel that it is
// missing.
void TrunkLink::echo() {
  const auto echoes = std::exchange(echoes_, {});
  if (echoes.empty() || lanes_.empty() || !resumed_) return;
  tell(*lanes_.front());
  const bool second = first_bulk(live_lanes()) > 1 && lanes_[1]->is_answered();
  for (const auto& frame : echoes) {
    const bool kept = stream(TrunkStream::kControl).sent.is_kept(frame->number);
    if (!second || !kept || frame->bytes.size() > kEchoBytes || !lanes_[1]->takes_more()) continue;
    put(*lanes_[1], frame, TrunkStream::kControl);
  }
  poll_ = true;
}

// What a lane that has stalled carries goes again over the others. It may recover, so it stays
// until there is another one in its place.
void TrunkLink::give_up_stalled() {
  sort_lanes();
  if (lanes_.empty() || lanes_.front()->is_stalled()) return;
  if (is_planted(Planted::kKeepStalled)) return;
  for (const auto& lane : lanes_) {
    if (lane->is_stalled()) give_back(lane->id());
  }
}

// The other side may have ended a lane whose last bytes its kernel had confirmed and nobody had
// read, and its word of that may be lost. Then nothing is unanswered there, so that the lane never
// stalls. What is sent over it now shows that it is dead.
void TrunkLink::probe(Instant now) {
  bool late = false;
  for (TrunkFrames& frames : streams_) {
    const std::uint64_t first = frames.sent.first_kept();
    const bool same = frames.sent.frames() > 0 && frames.awaited == first;
    if (same && now < frames.probes) continue;
    late = late || same;
    frames.awaited = first;
    frames.probes = now + patience(kLaneTime, round_trip_);
  }
  if (!late) return;
  for (const auto& lane : lanes_) tell(*lane);
  poll_ = true;
}

void TrunkLink::sort_lanes() {
  std::ranges::stable_sort(lanes_, {}, [](const auto& lane) { return lane->order(); });
}

void TrunkLink::look_at_path() {
  if (!status().is_ok()) return meter()->trunk.end();
  meter()->trunk.exists.set(1);
  meter()->trunk.stands.set(1);
  show_lanes(lanes_, meter()->trunk);
  cuts_.show(meter()->trunk);
  if (lanes_.empty()) return;
  meter()->round_trip_ns.set(lanes_.front()->path().round_trip_ns);
  meter()->least_round_trip_ns.set(round_trip_.count());
  if (growth_.rate() > 0) meter()->bytes_per_s.set(static_cast<std::int64_t>(growth_.rate()));
}

}  // namespace holdfast::comm
