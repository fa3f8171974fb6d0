// Record: what a coordinator in a process of its own has decided, where its next life finds it.
// Written before a view is published: what is there is decided, and nothing else is.
// Why: docs/decisions/0124-an-outside-coordinator-is-one-voter.md
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace holdfast::ft {

// The newest view of a world.
struct WorldRecord {
  CommId world;
  Epoch epoch;
  std::vector<MemberId> members;  // by rank, vacancies left out
  friend bool operator==(const WorldRecord&, const WorldRecord&) = default;
};

// Where it is kept: a file, a store, a test's memory. Called by the driving thread: it may take as
// long as a disk does.
class Record {
 public:
  virtual ~Record() = default;
  // Nothing: no world of that name is known.
  virtual Result<std::optional<WorldRecord>> load(const std::string& name) = 0;
  // False: it says something else than `expected`. True: `next` is there, whatever breaks.
  virtual Result<bool> compare_and_set(const std::string& name,
                                       const std::optional<WorldRecord>& expected,
                                       const std::optional<WorldRecord>& next) = 0;
};

}  // namespace holdfast::ft
