// What each rank does, step by step, in a call on device memory that goes in two levels
// (two_level/work.h). Pure, from what all ranks know alike; tests run the scripts of all ranks over
// plain memory.
//
// For S bytes, C columns, H hosts, n ranks; over a device's bus up and down:
//
//   all_reduce      an owner S/C up, 2 (H-1)/H S/C down
//   reduce_scatter  S as all blocks, k ranks a host: (H-1)/H S/k up, (H-1)/n S down
//   all_gather      S as all blocks: S/n up, (H-1)/H S/k down
//   broadcast       root's host: an owner S/C up; other hosts: an owner S/C down
//
// Staged, all of a rank's input would go up over its device's bus, and all of its result down.
#pragma once

#include <cstdint>
#include <vector>

#include "device_comm/two_level/plan.h"

namespace holdfast::device_comm {

enum class TwoLevelSpace : std::uint8_t {
  kInput,   // all blocks of a rank's input, one behind the other
  kResult,  // all blocks of a rank's output, one behind the other
  kParts,   // own memory on the device
  kHost,    // own pinned memory
};

struct TwoLevelPlace {
  TwoLevelSpace space{};
  Rank rank;  // owner of the memory
  std::uint64_t at = 0;
};

// Folds all of `from`, from left to right; copies a single one; writes zeros if there is none.
struct TwoLevelAction {
  TwoLevelPlace to;  // own
  std::vector<TwoLevelPlace> from;
  std::uint64_t bytes = 0;  // not 0
  bool last = false;        // the fold that is the result: an average is divided here
};

// An all_to_all between hosts, of bytes of kHost; indexed by rank.
struct TwoLevelExchange {
  std::vector<Cut> sent;
  std::vector<Cut> received;
};

struct TwoLevelScript {
  std::uint64_t host_bytes = 0;
  std::uint64_t parts_bytes = 0;
  std::vector<TwoLevelExchange> exchanges;
  // One phase before each exchange, then one before each vote.
  std::vector<std::vector<TwoLevelAction>> phases;
};

// How many steps of each kind there are, whichever ranks are present.
struct TwoLevelSteps {
  std::size_t exchanges = 0;
  std::size_t votes = 0;
};

// The steps of a collective that goes in two levels; nothing: the collective does not.
std::optional<TwoLevelSteps> two_level_steps(comm::Collective collective);

// The script of the rank of `shape`; it does nothing if that rank, or the root, is not among
// `ranks`.
TwoLevelScript two_level_script(const DirectShape& shape, const std::vector<int>& host_of,
                                const std::vector<Rank>& ranks);

}  // namespace holdfast::device_comm
