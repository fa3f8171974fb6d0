// What a trunk learns when it looks at its lanes: which have stalled, how many are worth having,
// how much may be unconfirmed; and what it tells of that.
#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/planted.h"
#include "comm/transport/trunk/trunk_link.h"

namespace holdfast::comm {

void TrunkLink::look(Instant now) {
  std::int64_t least = 0;
  for (const auto& lane : lanes_) {
    lane->look();
    const std::int64_t round_trip = lane->path().least_round_trip_ns;
    if (round_trip > 0) least = least == 0 ? round_trip : std::min(least, round_trip);
  }
  give_up_stalled();
  if (least > 0) round_trip_ = Duration(least);
  const bool split = lanes_.size() > 1;
  const auto carrying = static_cast<unsigned>(split ? lanes_.size() - 1 : lanes_.size());
  // While nothing gets through, what is delivered says nothing of the path.
  const bool busy = std::exchange(waited_, false) && !is_stalled();
  growth_.look({now, bulk().sent.confirmed_bytes(), busy, round_trip_, carrying});
  try_controls(now, busy);
  const double path =
      static_cast<double>(growth_.rate()) * std::chrono::duration<double>(round_trip_).count();
  window_ = std::min(kMostWindow, kLeastWindow + 2 * static_cast<std::uint64_t>(path));
  cuts_.look(now, is_down());
  look_at_path();
}

void TrunkLink::try_controls(Instant now, bool busy) {
  std::vector<ControlTrial::LaneDelivery> lanes;
  for (std::size_t i = 1; i < lanes_.size() && i <= growth_.wanted(); ++i) {
    lanes.push_back({lanes_[i]->id(), lanes_[i]->control(), lanes_[i]->path().delivered});
  }
  const bool known = trial_.better().has_value();
  trial_.look(now, busy, round_trip_, lanes);
  if (known || !trial_.better()) return;
  for (const auto& lane : lanes_) lane->set_control(*trial_.better());
}

// What a lane that has stalled carries goes again over the others. It may recover, so it stays
// until there is another one in its place.
void TrunkLink::give_up_stalled() {
  std::ranges::stable_sort(lanes_, {}, [](const auto& lane) { return lane->is_stalled(); });
  if (lanes_.empty() || lanes_.front()->is_stalled()) return;
  if (is_planted(Planted::kKeepStalled)) return;
  for (const auto& lane : lanes_) {
    if (lane->is_stalled()) give_back(lane->id());
  }
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
