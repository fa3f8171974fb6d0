#include "sim/weather.h"

#include <algorithm>

namespace holdfast::sim {
namespace {

using std::chrono::microseconds;

// How long kSlow lasts: longer than most ops take.
constexpr Duration kSlowTime = std::chrono::milliseconds(30);

bool is_in(std::uint64_t mask, int rank) { return rank < 63 && (mask >> rank & 1) != 0; }

}  // namespace

void Weather::begin(const Fault& f, Instant now) {
  const Instant until = now + f.lasts;
  switch (f.kind) {
    case FaultKind::kPartition: barriers_.push_back({until, f.mask, -1, -1}); return;
    case FaultKind::kClog: barriers_.push_back({until, 0, f.a, f.b}); return;
    case FaultKind::kSlow: slow_[{f.a, f.b}] = {f.lasts, now + kSlowTime}; return;
    case FaultKind::kLate: late_[{f.a, f.b}] = f.lasts; return;
    case FaultKind::kDrop: drops_[f.a] = until; return;
    case FaultKind::kDuplicate: duplicates_[f.a] = until; return;
    case FaultKind::kCorrupt: damaged_.insert({f.a, f.b}); return;
    default: return;
  }
}

Instant Weather::arrival(Instant now, int from, int to, Random& random) const {
  Instant at = now;
  for (const Barrier& barrier : barriers_) {
    const bool parted = barrier.mask != 0 && is_in(barrier.mask, from) != is_in(barrier.mask, to);
    if (parted || (barrier.from == from && barrier.to == to)) at = std::max(at, barrier.until);
  }
  Duration latency = microseconds(5 + static_cast<int>(random.below(60)));
  if (random.chance(3)) latency += microseconds(random.below(2000));
  const auto slow = slow_.find({from, to});
  if (slow != slow_.end() && now < slow->second.second) latency += slow->second.first;
  return at + latency;
}

Duration Weather::lateness(int from, int to) {
  const auto late = late_.find({from, to});
  if (late == late_.end()) return {};
  const Duration by = late->second;
  late_.erase(late);
  return by;
}

int Weather::copies(Instant now, int from, Random& random) const {
  const auto dropped = drops_.find(from);
  if (dropped != drops_.end() && now < dropped->second && random.chance(60)) return 0;
  const auto doubled = duplicates_.find(from);
  return doubled != duplicates_.end() && now < doubled->second ? 2 : 1;
}

}  // namespace holdfast::sim
