// Scenarios from seeds: every seed leaves out some kinds of faults (swarm testing, Groce et al.
// 2012). Most faults wait for an event in the program or between members, so that they do happen:
// at a given time the program may have ended.
#include <algorithm>
#include <array>

#include "ft/message.h"
#include "sim/program.h"
#include "sim/random.h"
#include "sim/scenario.h"

namespace holdfast::sim {
namespace {

using std::chrono::microseconds;

Duration between(Random& random, std::uint64_t low_us, std::uint64_t high_us) {
  return microseconds(low_us + random.below(high_us - low_us + 1));
}

// The number of kinds that make_world draws from its first random numbers; kinds that were added
// later have random numbers of their own, so that seeds keep their worlds.
constexpr std::uint64_t kFirstKinds = 19;
constexpr std::uint64_t kClosings = 0xc105e;
constexpr std::uint64_t kMaps = 0x3a95;
constexpr std::uint64_t kStrangers = 0x57a6;
constexpr std::uint64_t kOperators = 0x09e7;
constexpr std::uint64_t kStores = 0x5709;
constexpr std::uint64_t kSecrets = 0x5ec7;
constexpr std::uint64_t kDoubts = 0xd0b7;
constexpr std::uint64_t kMeshes = 0x3e55;
// In smaller worlds all are neighbours.
constexpr int kLeastSparse = 6;

int pick_ranks(Random& random) {
  if (random.below(20'000) == 0) return 64 + static_cast<int>(random.below(193));
  if (random.below(200) == 0) return 10 + static_cast<int>(random.below(24));
  return 2 + static_cast<int>(random.below(8));
}

// Of a sparse world, faults of connections happen to neighbours: others may have none.
Scenario on_links(Scenario s) {
  if (!s.sparse) return s;
  for (Fault& fault : s.faults) {
    const int apart = (fault.b - fault.a + s.ranks) % s.ranks;
    const bool in_star = !s.outside && (fault.a == 0 || fault.b == 0);
    if (in_star || apart <= 2 || apart >= s.ranks - 2) continue;
    switch (fault.kind) {
      case FaultKind::kCorrupt:
      case FaultKind::kCut:
      case FaultKind::kReset:
      case FaultKind::kLate:
      case FaultKind::kClose:
      case FaultKind::kRefuse: fault.b = (fault.a + 1) % s.ranks; break;
      default: break;
    }
  }
  return s;
}

bool is_loss(FaultKind kind) {
  return kind == FaultKind::kCrash || kind == FaultKind::kVanish || kind == FaultKind::kLeave;
}

bool is_drawn(FaultKind kind, const Scenario& s) {
  switch (kind) {
    case FaultKind::kRestart:
    case FaultKind::kClose:
    case FaultKind::kStranger:
    case FaultKind::kSuspend: return false;  // by add_restart(), add_closings(), ..., tests
    case FaultKind::kMove:
    case FaultKind::kCutOff:
    case FaultKind::kCoordinator: return s.outside;
    case FaultKind::kGrow: return s.elastic;
    case FaultKind::kLate: return !s.flat;
    // A rank that leaves a group that is smaller than its world ends it for the others.
    case FaultKind::kLeave: return !s.subgroup;
    default: return true;
  }
}

// The faults of one scenario, one after the other: a later fault may wait for an earlier one, and
// happens to a rank that is still there.
class Draft {
 public:
  Draft(Random& random, Scenario& scenario) : random_(random), s_(scenario) {
    for (int r = 0; r < s_.ranks; ++r) here_.push_back(r);
  }

  void add(int count) {
    const std::uint64_t left_out = random_.next() & random_.next();
    for (int i = 0; i < count; ++i) {
      auto kind = static_cast<FaultKind>(random_.below(kFirstKinds));
      const bool drawn = (left_out >> static_cast<int>(kind) & 1) == 0 && is_drawn(kind, s_);
      if (!drawn) kind = FaultKind::kCrash;
      // One rank must stay.
      if (is_loss(kind) && here_.size() < 2) kind = FaultKind::kPause;
      add(kind);
    }
  }

  // Adds faults by which processes close a connection themselves and go on.
  void add_closings(Random& random) {
    if (here_.size() < 2 || !random.chance(15)) return;
    const auto steps = static_cast<std::uint64_t>(std::max(1, s_.steps * 2 / 3));
    for (auto left = 1 + random.below(3); left > 0; --left) {
      Fault f;
      f.kind = FaultKind::kClose;
      f.trigger = {When::kBegins, static_cast<int>(random.below(steps)) * kOpsPerStep, 1, kAnybody};
      if (changes_ > 0 && random.chance(50)) {
        const auto kind = static_cast<int>(ft::MessageKind::kReport);
        f.trigger = {When::kSends, kind, 1 + static_cast<int>(random.below(here_.size() - 1)),
                     kAnybody};
      }
      f.at = between(random, 0, 300);
      const std::size_t a = random.below(here_.size());
      const std::size_t b = (a + 1 + random.below(here_.size() - 1)) % here_.size();
      f.a = here_[a];
      f.b = here_[b];
      f.mask = random.below(2);
      s_.faults.push_back(f);
    }
  }

  // Adds processes that are nobody's members, and say what they like.
  void add_strangers(Random& random) {
    if (!random.chance(20)) return;
    const auto steps = static_cast<std::uint64_t>(std::max(1, s_.steps * 2 / 3));
    for (auto left = 1 + random.below(2); left > 0; --left) {
      Fault f;
      f.kind = FaultKind::kStranger;
      f.trigger = {When::kBegins, static_cast<int>(random.below(steps)) * kOpsPerStep, 1, kAnybody};
      if (changes_ > 0 && random.chance(60)) {
        static constexpr std::array kKinds = {ft::MessageKind::kReport, ft::MessageKind::kPrepare,
                                              ft::MessageKind::kDecide};
        const auto kind = static_cast<int>(kKinds.at(random.below(kKinds.size())));
        f.trigger = {When::kSends, kind, 1 + static_cast<int>(random.below(3)), kAnybody};
      }
      f.at = between(random, 0, 300);
      f.mask = random.next();
      s_.faults.push_back(f);
    }
  }

  // What looks like a death where there is a secret.
  void add_doubts(Random& random) {
    if (here_.size() < 2 || !random.chance(30)) return;
    const auto steps = static_cast<std::uint64_t>(std::max(1, s_.steps * 2 / 3));
    for (auto left = 1 + random.below(3); left > 0; --left) {
      Fault f;
      f.kind = random.chance(50) ? FaultKind::kRefuse : FaultKind::kWitness;
      f.trigger = {When::kBegins, static_cast<int>(random.below(steps)) * kOpsPerStep, 1, kAnybody};
      if (changes_ > 0 && random.chance(40)) {
        static constexpr std::array kKinds = {ft::MessageKind::kReport, ft::MessageKind::kPrepare,
                                              ft::MessageKind::kAccept};
        const auto kind = static_cast<int>(kKinds.at(random.below(kKinds.size())));
        f.trigger = {When::kSends, kind, 1 + static_cast<int>(random.below(3)), kAnybody};
      }
      f.at = between(random, 0, 300);
      const std::size_t a = random.below(here_.size());
      const std::size_t b = (a + 1 + random.below(here_.size() - 1)) % here_.size();
      f.a = here_[a];
      f.b = here_[b];
      // Some last longer than `grace`.
      f.lasts = random.chance(60) ? between(random, 100, 5'000) : between(random, 5'000, 100'000);
      s_.faults.push_back(f);
    }
  }

  // What an operator asks of the coordinator.
  void add_orders(Random& random) {
    if (!random.chance(30)) return;
    const auto steps = static_cast<std::uint64_t>(std::max(1, s_.steps * 2 / 3));
    for (auto left = 1 + random.below(3); left > 0; --left) {
      Fault f;
      static constexpr std::array kOrders = {FaultKind::kKick, FaultKind::kDrain, FaultKind::kDrain,
                                             FaultKind::kHold};
      f.kind = kOrders.at(random.below(kOrders.size()));
      f.trigger = {When::kBegins, static_cast<int>(random.below(steps)) * kOpsPerStep, 1, kAnybody};
      if (!s_.faults.empty() && random.chance(40)) {
        f.trigger = {When::kFault, static_cast<int>(random.below(s_.faults.size())), 1, kAnybody};
      }
      f.at = between(random, 0, 2'000);
      f.a = static_cast<int>(random.below(static_cast<std::uint64_t>(s_.ranks)));
      f.lasts = between(random, 1'000, 100'000);
      s_.faults.push_back(f);
    }
  }

 private:
  int pick_rank() { return here_[random_.below(here_.size())]; }

  // A trigger within a change of views: a message that each change sends.
  Trigger on_message() {
    using ft::MessageKind;
    static constexpr std::array kKinds = {MessageKind::kReport, MessageKind::kPrepare,
                                          MessageKind::kPropose, MessageKind::kAccept,
                                          MessageKind::kDecide};
    Trigger t{When::kSends, static_cast<int>(kKinds.at(random_.below(kKinds.size()))), 1, kAnybody};
    const std::size_t most = std::min<std::size_t>(3, here_.size() - 1);
    t.count = 1 + static_cast<int>(random_.below(most));
    return t;
  }

  // Most faults wait for a step of the program, which all ranks come to; some for another fault, or
  // for a message between members.
  Trigger pick_trigger() {
    const auto steps = static_cast<std::uint64_t>(std::max(1, s_.steps * 2 / 3));
    if (changes_ > 0 && here_.size() > 1 && random_.chance(25)) return on_message();
    if (!s_.faults.empty() && random_.chance(25)) {
      return {When::kFault, static_cast<int>(random_.below(s_.faults.size())), 1, kAnybody};
    }
    if (changes_ > 0 && random_.chance(15)) return {When::kAdopts, 2, 1, kAnybody};
    if (s_.flat && changes_ == 0 && random_.chance(15)) {
      return {When::kRings, 0, 1 + static_cast<int>(random_.below(10)), kAnybody};
    }
    const When when = random_.chance(70) ? When::kBegins : When::kEnds;
    return {when, static_cast<int>(random_.below(steps)) * kOpsPerStep, 1, kAnybody};
  }

  void add(FaultKind kind) {
    Fault f;
    f.kind = kind;
    f.trigger = pick_trigger();
    if (random_.chance(40)) f.at = between(random_, 0, random_.chance(85) ? 300 : 2'000);
    f.a = pick_rank();
    f.b = pick_rank();
    if (f.b == f.a) f.b = (f.a + 1) % s_.ranks;
    // Half of the faults are over before any member counts as silent.
    f.lasts = random_.chance(50) ? between(random_, 100, 5'000) : between(random_, 5'000, 100'000);
    if (kind == FaultKind::kPartition) {
      f.mask = random_.next() & ((std::uint64_t{1} << std::min(s_.ranks, 63)) - 1);
    }
    if (kind == FaultKind::kReset) f.mask = random_.below(3);
    if (kind == FaultKind::kMove) f.mask = random_.next();
    if (kind == FaultKind::kDrift) f.lasts = Duration(random_.below(10));
    const bool heals = random_.chance(50);
    if (kind == FaultKind::kCut && !heals) f.lasts = {};
    s_.faults.push_back(f);
    if (!is_loss(kind)) return;
    if (kind != FaultKind::kLeave) ++changes_;
    if (kind == FaultKind::kCrash && s_.advances && random_.chance(60)) return add_restart();
    std::erase(here_, f.a);
  }

  void add_restart() {
    Fault restart = s_.faults.back();
    restart.kind = FaultKind::kRestart;
    restart.at = between(random_, 0, random_.chance(70) ? 300 : 2'000);
    restart.trigger = {When::kFault, static_cast<int>(s_.faults.size()) - 1, 1, kAnybody};
    s_.faults.push_back(restart);
  }

  Random& random_;
  Scenario& s_;
  std::vector<int> here_;  // ranks that no fault has ended for good
  int changes_ = 0;        // changes of views, at the least
};

Scenario make_world(std::uint64_t seed, bool outside) {
  Random random(seed * 2 + 1);
  Scenario s;
  s.seed = seed;
  s.outside = outside;
  s.ranks = pick_ranks(random);
  const bool large = s.ranks > 33;
  s.steps = large ? 3 : 6 + static_cast<int>(random.below(5));
  s.elements = large ? 8 : 1 << random.below(7);
  // More than eager messages carry, so that messages stop in the middle.
  if (!large && random.chance(6)) s.elements = 6'000 << random.below(2);
  s.raise = random.chance(15);
  s.flat = !large && random.chance(30);
  s.blocking = s.flat && random.chance(50);
  s.two_links = random.chance(40);
  s.advances = random.chance(60);
  s.zero_holes = random.chance(40);
  s.elastic = s.advances && s.ranks <= 5 && random.chance(25);
  s.subgroup = !large && s.ranks > 2 && random.chance(20);
  s.two_worlds = !large && !s.elastic && random.chance(12);
  if (random.chance(20)) s.hosts = 2;
  Random meshes(seed * 2 + 1 + kMeshes * (outside ? 3 : 1));
  s.sparse = !s.flat && s.ranks >= kLeastSparse && meshes.chance(25);
  Draft draft(random, s);
  draft.add(static_cast<int>(random.below(large ? 3 : 6)));
  Random closings(seed * 2 + 1 + kClosings * (outside ? 3 : 1));
  draft.add_closings(closings);
  Random strangers(seed * 2 + 1 + kStrangers * (outside ? 3 : 1));
  draft.add_strangers(strangers);
  // A map has all ranks of its world, and a plan for many takes long.
  Random operators(seed * 2 + 1 + kOperators);
  if (outside) draft.add_orders(operators);
  Random maps(seed * 2 + 1 + kMaps);
  s.maps = !s.elastic && s.ranks <= 10 && maps.chance(4);
  // Of coordinators that have a record, most are elected, as with etcd; others share a store.
  Random stores(seed * 2 + 1 + kStores);
  const bool recorded = outside && has_record(s);
  s.terms = recorded && stores.chance(60);
  s.slow_store = recorded && stores.chance(30);
  // Without a coordinator all that have the secret are one party, and no stranger has it.
  Random secrets(seed * 2 + 1 + kSecrets);
  const bool has_strangers = std::any_of(s.faults.begin(), s.faults.end(), [](const Fault& fault) {
    return fault.kind == FaultKind::kStranger;
  });
  s.signs = outside ? secrets.chance(has_strangers ? 80 : 60) : !has_strangers;
  if (!s.signs) return on_links(std::move(s));
  // Whose word counts is a matter of hosts.
  Random doubts(seed * 2 + 1 + kDoubts * (outside ? 3 : 1));
  if (!large && doubts.chance(30)) s.hosts = 2 + static_cast<int>(doubts.below(4));
  draft.add_doubts(doubts);
  s.launched = doubts.chance(30);
  return on_links(std::move(s));
}

}  // namespace

Scenario make_scenario(std::uint64_t seed) { return make_world(seed, false); }

Scenario with_coordinator(std::uint64_t seed) { return make_world(seed, true); }

}  // namespace holdfast::sim
