#include "sim/lanes/lane_scenario.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>

#include "sim/random.h"

namespace holdfast::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::array<const char*, kLaneFaultKinds> kLaneNames = {
    "cut_lane", "cut_all",     "stall_lane", "half_lane", "flap",
    "one_way",  "expire_lane", "expire_all", "refuse",    "renew"};
constexpr std::array<const char*, 3> kEndings = {"delivered", "goodbye", "dies"};
constexpr std::uint64_t kLaneWorlds = 0x1a9e;

Duration drawn(Random& random, std::uint64_t low_us, std::uint64_t high_us) {
  return microseconds(low_us + random.below(high_us - low_us + 1));
}

// Most worlds have a path of milliseconds, some a long or a thin one.
void draw_path(Random& random, LaneScenario& s) {
  s.latency = drawn(random, 200, random.chance(80) ? 20'000 : 300'000);
  const double mb_per_s = static_cast<double>(1 + random.below(random.chance(80) ? 1'000 : 20));
  s.bytes_per_ns = mb_per_s / 1'000;
  s.room = std::size_t{2'048} << random.below(8);
  // What a path of that length holds is not that little.
  if (s.latency > milliseconds(20)) s.room = std::max<std::size_t>(s.room, 64 * 1024);
  s.loss_percent = random.chance(30) ? static_cast<int>(random.below(20)) : 0;
}

LaneFault draw_fault(Random& random, const LaneScenario& s) {
  LaneFault f;
  f.kind = static_cast<LaneFaultKind>(random.below(kLaneFaultKinds));
  // A new trunk drops what the old one had: most worlds are about one.
  if (f.kind == LaneFaultKind::kRenew && random.chance(70)) f.kind = LaneFaultKind::kCutLane;
  f.at = drawn(random, 0, static_cast<std::uint64_t>(s.sends / microseconds(1)));
  f.end = static_cast<int>(random.below(2));
  f.lane = static_cast<unsigned>(random.below(s.lanes));
  const bool is_short = random.chance(50);
  f.lasts = is_short ? drawn(random, 1'000, 300'000) : drawn(random, 300'000, 8'000'000);
  return f;
}

}  // namespace

std::string lane_fault_name(LaneFaultKind kind) {
  return kLaneNames.at(static_cast<std::size_t>(kind));
}

LaneScenario make_lane_scenario(std::uint64_t seed) {
  Random random(seed * 2 + 1 + kLaneWorlds);
  LaneScenario s;
  s.seed = seed;
  s.lanes = 1 + static_cast<unsigned>(random.below(random.chance(80) ? 4 : 16));
  draw_path(random, s);
  s.one_calls = random.chance(40);
  s.relayed = random.chance(20);
  s.sends = drawn(random, 10'000, random.chance(70) ? 1'000'000 : 10'000'000);
  s.direct_at = drawn(random, 0, static_cast<std::uint64_t>(2 * s.sends / microseconds(1)));
  s.frames = 5 + static_cast<int>(random.below(random.chance(80) ? 40 : 200));
  if (random.chance(15)) s.messages = 1 + static_cast<int>(random.below(3));
  s.large = random.below(500) == 0;
  if (random.chance(15)) s.ending = random.chance(60) ? LaneEnding::kGoodbye : LaneEnding::kDies;
  s.leaver = static_cast<int>(random.below(2));
  s.ends_at = drawn(random, 0, static_cast<std::uint64_t>(s.sends / microseconds(1)));
  for (auto left = random.below(7); left > 0; --left) s.faults.push_back(draw_fault(random, s));
  return s;
}

std::string to_text(const LaneScenario& s) {
  const auto us = [](Duration time) { return std::to_string(time / microseconds(1)) + " us"; };
  std::ostringstream out;
  out << "seed " << s.seed << "\nlanes " << s.lanes << "\nlatency " << us(s.latency) << "\nrate "
      << s.bytes_per_ns * 1e3 << " MB/s\nroom " << s.room << "\nloss " << s.loss_percent << " %\n";
  if (s.one_calls) out << "only end 0 can call\n";
  if (s.relayed) out << "relayed until " << us(s.direct_at) << "\n";
  out << "frames " << s.frames << " and messages " << s.messages << (s.large ? ", large" : "")
      << ", within " << us(s.sends) << "\nends " << kEndings.at(static_cast<std::size_t>(s.ending));
  if (s.ending != LaneEnding::kDelivered) out << " end " << s.leaver << " at " << us(s.ends_at);
  out << "\n";
  for (const LaneFault& f : s.faults) {
    out << lane_fault_name(f.kind) << " at " << us(f.at) << " end " << f.end << " lane " << f.lane
        << " lasts " << us(f.lasts) << "\n";
  }
  return out.str();
}

}  // namespace holdfast::sim
