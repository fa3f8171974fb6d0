#include "comm/transport/trunk/cut_log.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace holdfast::comm {

std::string_view lane_cut_name(LaneCut cut) {
  constexpr std::array<std::string_view, kLaneCutCount> kNames = {
      "reset", "closed", "timeout", "stalled", "surplus", "altered", "error"};
  return kNames.at(static_cast<std::size_t>(cut));
}

LaneCut lane_cut_of(int error) {
  switch (error) {
    case 0:
    case EPIPE: return LaneCut::kClosed;
    case ECONNRESET:
    case ECONNABORTED: return LaneCut::kReset;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH: return LaneCut::kTimeout;
    case EBADMSG: return LaneCut::kAltered;
    default: return LaneCut::kError;
  }
}

std::size_t tcp_control_index(std::string_view name) {
  const auto at = std::ranges::find(kTcpControls, name);
  return at == kTcpControls.end() ? 0 : static_cast<std::size_t>(at - kTcpControls.begin());
}

void CutLog::add(LaneCut why, TrunkMeter& meter) {
  meter.cuts[static_cast<std::size_t>(why)].add(1);
  last_ = why;
  unseen_ = true;
}

void CutLog::look(Instant now, bool down) {
  if (std::exchange(unseen_, false)) {
    last_at_ = at_[next_] = now;
    next_ = (next_ + 1) % kMostRecent;
  }
  recent_ = static_cast<std::size_t>(std::ranges::count_if(
      at_, [now](Instant at) { return at != Instant{} && now - at < kRecentCut; }));
  if (!down) {
    down_since_ = {};
  } else if (down_since_ == Instant{}) {
    down_since_ = now;
  }
}

void CutLog::show(TrunkMeter& meter) const {
  meter.recent_cuts.set(static_cast<std::int64_t>(recent_));
  meter.last_cut.set(static_cast<std::int64_t>(last_));
  meter.last_cut_ns.set(last_at_.since_origin.count());
  meter.down_since_ns.set(down_since_.since_origin.count());
}

}  // namespace holdfast::comm
