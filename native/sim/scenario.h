// Scenario: one simulated world as data: its ranks, what they call, what goes wrong. It is made
// from a seed, or written by hand, and small enough to read in a bug report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace holdfast::sim {

enum class FaultKind : std::uint8_t {
  kCrash,        // the process of rank `a` ends
  kRestart,      // a new process wants the rank `a`
  kPause,        // rank `a` does not run for `lasts`
  kPartition,    // ranks in `mask` hear nothing of the other ranks, nor these of them
  kClog,         // nothing gets from `a` to `b`
  kSlow,         // frames from `a` to `b` take `lasts` longer, for a while
  kDrop,         // messages of membership from `a` are lost, `lasts` long
  kDuplicate,    // messages of membership from `a` come twice
  kCorrupt,      // the next frame from `a` to `b` is damaged
  kCut,          // the connection between `a` and `b` breaks, for good if `lasts` is 0; both live
  kLeave,        // rank `a` says goodbye after its op
  kDrift,        // the clock of rank `a` runs `lasts` percent fast
  kCoordinator,  // the coordinator outside the view ends; another one starts after `lasts`
  kVanish,       // the host of rank `a` goes: it is silent for good, without proof of death
  kReset,        // connections close as if a process had ended, and are made again after `lasts`:
                 // that of `a` and `b`; `mask` 1: all of `a`; `mask` 2: all connections
  kLate,         // the next data from `a` to `b` takes `lasts`
  kCutOff,       // the connection of `a` to the coordinator outside the view breaks, for `lasts`
  kMove,         // another coordinator starts though the first one lives; ranks in `mask` go to it,
                 // the others after `lasts`, when the first one ends
  kGrow,         // a process wants any rank
  kClose,    // the runtime of `a` closes its connection to `b` by itself, as it does when a send
             // fails; both live, and call again. `mask` 1: the data connection, where there are two
  kSuspend,  // rank `a` does not run for `lasts`, from the `mask`-th look on that it takes at
             // others' memory: between seeing that data is there and reading it. Test builds
  kStranger,  // a process that is nobody's member forges messages, drawn by `mask`
  kKick,      // an operator asks the coordinator outside the view to have rank `a` out
  kDrain,     // likewise, at a step boundary that comes within `lasts`
  kHold,      // likewise, to have all wait at their next step boundary for `lasts`
  kRefuse,   // with a secret: something closes the connection of `a` and `b`, and refuses the calls
             // of `a` in the name of `b` for `lasts`; both live
  kWitness,  // with a secret: `a` says that the process of `b` has ended; it lives, and their hosts
             // are not one
};
inline constexpr int kFaultKindCount = 27;
std::string fault_name(FaultKind kind);

// The event that a fault waits for; the fault happens `at` after it.
enum class When : std::uint8_t {
  kStart,   // of the world
  kSends,   // the `count`-th message of membership of kind `what` leaves
  kAdopts,  // the view of epoch `what` begins
  kBegins,  // op `what` of the program, or a later one, is called
  kEnds,    // op `what` of the program, or a later one, has ended
  kRings,   // `by` wakes another rank for the `count`-th time: it has written to shared memory
  kFault,   // fault number `what` has happened
};
inline constexpr int kWhenCount = 7;

// Values of Trigger::by beside ranks.
inline constexpr int kAnybody = -1;
inline constexpr int kOutsideCoordinator = -2;

struct Trigger {
  When when = When::kStart;
  int what = 0;
  int count = 1;
  int by = kAnybody;  // a rank
  friend bool operator==(const Trigger&, const Trigger&) = default;
};

struct Fault {
  FaultKind kind{};
  Duration at{};
  int a = 0;
  int b = 0;
  std::uint64_t mask = 0;
  Duration lasts{};
  Trigger trigger = {};
  friend bool operator==(const Fault&, const Fault&) = default;
};

struct Scenario {
  std::uint64_t seed = 0;
  int ranks = 2;
  int steps = 4;            // steps of the program; each has a few ops, and maybe a step boundary
  int elements = 16;        // of the largest block
  bool raise = false;       // on_peer_loss
  bool zero_holes = false;  // on_hole
  bool flat = false;        // the ranks share memory
  bool blocking = false;    // the program waits for each op: a small op may run inline
  bool two_links = false;   // data and control apart, as with shared memory
  bool advances = false;    // steps end with advance()
  bool outside = false;     // a process of its own coordinates
  bool terms = false;       // who coordinates is elected, and its record is refused to others
  bool signs = false;       // with a secret: views are signed, and no others are believed
  bool launched = false;    // with a secret: whoever started a rank sees it end, and tells all
  bool slow_store = false;  // the coordinators' record is slow, and fails at times
  bool elastic = false;     // the world may grow
  bool subgroup = false;    // the even ranks have a group of their own, too
  bool two_worlds = false;  // all ranks are in a second world, too
  bool maps = false;        // the ranks take maps of their links, which drift
  bool sparse = false;      // ranks are connected where ops need it
  int hosts = 1;
  std::uint64_t delays = 0;  // draws other network delays for the same seed
  std::vector<Fault> faults;
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

// Whether a coordinator outside the view keeps its decisions.
inline bool has_record(const Scenario& scenario) {
  return scenario.terms || scenario.seed % 2 == 0;
}

// Swarm testing (Groce et al. 2012): every seed leaves out some kinds of faults.
Scenario make_scenario(std::uint64_t seed);
// The same world with a coordinator process of its own, which may die, too.
Scenario with_coordinator(std::uint64_t seed);
std::string to_text(const Scenario& scenario);
// kConfigError naming the line that cannot be read.
Result<Scenario> parse_scenario(const std::string& text);

}  // namespace holdfast::sim
