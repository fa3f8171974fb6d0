// State scenario: one simulated job with snapshots as data: its hosts, its code, and what becomes
// of processes, hosts, memory and disks. It is made from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace holdfast::sim {

enum class StateFaultKind : std::uint8_t {
  kKillTrainer,
  kKillKeeper,
  kLoseHost,      // trainers, keepers and the disk of one host
  kLoseMost,      // as many hosts at once as there are parities
  kLoseMore,      // one more
  kKillTrainers,  // all of them
  kKillAll,       // every process; what was written stays
  kPowerOff,      // every host: what was not synced is lost or torn
  kDiskFull,      // of one host, for `lasts`
  kStopKeeper,    // for `lasts`
  kFlipMemory,    // a bit of a body or a parity of a keeper
  kScribble,      // a tile of a keeper's body and its hash, alike
  kFlipFile,
  kSwapFile,  // a file of a rank is another job's
};
inline constexpr int kStateFaultKinds = 14;
std::string state_fault_name(StateFaultKind kind);

// What a fault waits for once its time has come.
enum class StateMoment : std::uint8_t {
  kAnytime,
  kCapturing,
  kCoding,
  kClosing,
  kFlushing,
  kRestoring,
};
inline constexpr int kStateMoments = 6;
std::string state_moment_name(StateMoment moment);

struct StateFault {
  StateFaultKind kind{};
  StateMoment moment{};
  Duration at{};
  int place = 0;  // which rank or host, counted around
  Duration lasts{};
  bool returns = true;  // a host that is lost is replaced; else the job goes on without it
};

struct StateScenario {
  std::uint64_t seed = 0;
  int hosts = 4;
  int per_host = 1;
  int data = 3;
  int parity = 1;
  int slots = 2;
  std::uint64_t steps = 10;
  std::uint64_t flush_every = 0;
  bool shared = false;  // one storage of all hosts, which outlives them
  int shards = 4;       // of the global state
  Duration step{};
  Duration patience{};
  int failing = 0;        // captures that fail, in percent
  bool replicas = false;  // every trainer has all of the state
  std::vector<StateFault> faults;
};

StateScenario make_state_scenario(std::uint64_t seed);
std::string to_text(const StateScenario& scenario);

}  // namespace holdfast::sim
