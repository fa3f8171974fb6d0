// Record: the decisions of a coordinator in a process of its own, kept where its next life finds
// them. A view is written before it is published: what the record has is decided, and nothing else
// is.
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

// Where the decisions are kept: a file, a store, a test's memory. Called by the driving thread; a
// call may take as long as a disk does.
class Record {
 public:
  virtual ~Record() = default;
  // nullopt: no world of that name is known.
  virtual Result<std::optional<WorldRecord>> load(const std::string& name) = 0;
  // False: the record differs from `expected`. True: `next` is written, and survives a crash.
  virtual Result<bool> compare_and_set(const std::string& name,
                                       const std::optional<WorldRecord>& expected,
                                       const std::optional<WorldRecord>& next) = 0;
};

}  // namespace holdfast::ft
