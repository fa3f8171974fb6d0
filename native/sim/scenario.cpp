#include "sim/scenario.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "sim/random.h"

namespace holdfast::sim {
namespace {

using std::chrono::microseconds;

constexpr std::array<const char*, kFaultKindCount> kNames = {
    "crash",     "restart", "pause", "partition", "clog",  "slow",       "drop",
    "duplicate", "corrupt", "cut",   "leave",     "drift", "coordinator"};
// Those that make_scenario() draws: a new kind must not change the worlds of old seeds.
constexpr int kDrawnKinds = 12;

Duration between(Random& random, std::uint64_t low_us, std::uint64_t high_us) {
  return microseconds(low_us + random.below(high_us - low_us + 1));
}

int pick_ranks(Random& random) {
  if (random.below(20'000) == 0) return 64 + static_cast<int>(random.below(193));
  if (random.below(200) == 0) return 10 + static_cast<int>(random.below(24));
  return 2 + static_cast<int>(random.below(8));
}

Fault make_fault(Random& random, FaultKind kind, const Scenario& scenario) {
  const auto ranks = static_cast<std::uint64_t>(scenario.ranks);
  Fault fault;
  fault.kind = kind;
  fault.at = between(random, 0, 30'000);
  fault.a = static_cast<int>(random.below(ranks));
  fault.b = static_cast<int>(random.below(ranks));
  if (fault.b == fault.a) fault.b = (fault.a + 1) % scenario.ranks;
  fault.lasts = between(random, 100, random.chance(50) ? 5'000 : 100'000);
  if (kind == FaultKind::kPartition) {
    fault.mask = random.next() & ((std::uint64_t{1} << std::min(scenario.ranks, 63)) - 1);
  }
  if (kind == FaultKind::kDrift) fault.lasts = Duration(random.below(10));
  return fault;
}

}  // namespace

std::string fault_name(FaultKind kind) { return kNames.at(static_cast<std::size_t>(kind)); }

Scenario make_scenario(std::uint64_t seed) {
  Random random(seed * 2 + 1);
  Scenario s;
  s.seed = seed;
  s.ranks = pick_ranks(random);
  const bool large = s.ranks > 33;
  s.steps = large ? 2 : 2 + static_cast<int>(random.below(5));
  s.elements = large ? 8 : 1 << random.below(7);
  // More than eager messages carry: they stop in the middle.
  if (!large && random.chance(6)) s.elements = 6'000 << random.below(2);
  s.raise = random.chance(15);
  s.flat = !large && random.chance(30);
  s.brief = s.flat && seed % 2 == 0;
  s.two_links = random.chance(40);
  s.advances = random.chance(50);
  if (random.chance(20)) s.hosts = 2;
  // Of its own, so that the other draws are what they were.
  s.zero_holes = Random(seed * 2 + 11).chance(40);
  const std::uint64_t swarm = random.next() & random.next();
  const int count = static_cast<int>(random.below(large ? 3 : 6));
  bool crashed = false;
  for (int i = 0; i < count; ++i) {
    auto kind = static_cast<FaultKind>(random.below(kDrawnKinds));
    if ((swarm >> static_cast<int>(kind) & 1) != 0 && kind != FaultKind::kCrash) {
      kind = FaultKind::kCrash;
    }
    if (kind == FaultKind::kRestart && !crashed) kind = FaultKind::kCrash;
    s.faults.push_back(make_fault(random, kind, s));
    if (kind != FaultKind::kCrash) continue;
    crashed = true;
    if (!s.advances || !random.chance(50)) continue;
    Fault restart = s.faults.back();
    restart.kind = FaultKind::kRestart;
    restart.at += between(random, 100, 20'000);
    s.faults.push_back(restart);
  }
  std::stable_sort(s.faults.begin(), s.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return s;
}

Scenario with_coordinator(std::uint64_t seed) {
  Scenario s = make_scenario(seed);
  s.outside = true;
  Random random(seed * 2 + 5);
  for (int i = static_cast<int>(random.below(3)); i > 0; --i) {
    Fault fault;
    fault.kind = FaultKind::kCoordinator;
    fault.at = between(random, 0, 30'000);
    fault.lasts = between(random, 100, 20'000);
    s.faults.push_back(fault);
  }
  std::stable_sort(s.faults.begin(), s.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return s;
}

Instant end_of_faults(const Scenario& scenario) {
  Instant end{};
  for (const Fault& f : scenario.faults) end = std::max(end, Instant{f.at + f.lasts});
  return end;
}

bool may_time_out(const Scenario& scenario) {
  return std::any_of(scenario.faults.begin(), scenario.faults.end(), [](const Fault& f) {
    return f.kind != FaultKind::kCrash && f.kind != FaultKind::kRestart &&
           f.kind != FaultKind::kDrift && f.kind != FaultKind::kLeave &&
           f.kind != FaultKind::kCoordinator;
  });
}

std::string to_text(const Scenario& s) {
  std::ostringstream out;
  out << "seed " << s.seed << "\nranks " << s.ranks << "\nsteps " << s.steps << "\nelements "
      << s.elements << "\nraise " << s.raise << "\nzero_holes " << s.zero_holes << "\nflat "
      << s.flat << "\nbrief " << s.brief << "\ntwo_links " << s.two_links << "\nadvances "
      << s.advances << "\noutside " << s.outside << "\nhosts " << s.hosts << "\n";
  for (const Fault& f : s.faults) {
    out << fault_name(f.kind) << " at " << f.at.count() << " a " << f.a << " b " << f.b << " mask "
        << f.mask << " lasts " << f.lasts.count() << "\n";
  }
  return out.str();
}

Result<Scenario> parse_scenario(const std::string& text) {
  Scenario s;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    std::string name;
    in >> name;
    const auto known = std::find(kNames.begin(), kNames.end(), name);
    if (known != kNames.end()) {
      Fault f;
      f.kind = static_cast<FaultKind>(known - kNames.begin());
      std::string word;
      std::int64_t at = 0;
      std::int64_t lasts = 0;
      in >> word >> at >> word >> f.a >> word >> f.b >> word >> f.mask >> word >> lasts;
      f.at = Duration(at);
      f.lasts = Duration(lasts);
      const bool ranks_exist = f.a >= 0 && f.b >= 0 && f.a < s.ranks && f.b < s.ranks;
      if (in.fail() || !ranks_exist) return Status{Code::kConfigError, "cannot read: " + line};
      s.faults.push_back(f);
      continue;
    }
    if (name == "seed") in >> s.seed;
    if (name == "ranks") in >> s.ranks;
    if (name == "steps") in >> s.steps;
    if (name == "elements") in >> s.elements;
    if (name == "raise") in >> s.raise;
    if (name == "zero_holes") in >> s.zero_holes;
    if (name == "flat") in >> s.flat;
    if (name == "brief") in >> s.brief;
    if (name == "two_links") in >> s.two_links;
    if (name == "advances") in >> s.advances;
    if (name == "outside") in >> s.outside;
    if (name == "hosts") in >> s.hosts;
    const bool sound = !in.fail() && s.ranks >= 1 && s.ranks <= 1024 && s.steps >= 0 &&
                       s.elements >= 0 && s.elements <= 1 << 20 && s.hosts >= 1;
    if (!sound) return Status{Code::kConfigError, "cannot read: " + line};
  }
  return s;
}

}  // namespace holdfast::sim
