// Path agreement: whether a group's members reach each other's device memory, found out by an op
// that tries, and used from the same call on by all of them.
//
// Ranks must send the same op for the same call, but they call at different times, so what one rank
// has learnt when it calls may not be known to another yet. So the first call tries; those right
// after it neither try nor wait; and a later one waits for the result of the trial, which by then
// is over as a rule. The result is the same on all members, as outcomes of ops are. A step boundary
// at which members may have come in begins anew.
// Why: docs/decisions/0088-reach-is-tried-and-counted.md
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/result.h"
#include "base/types.h"

namespace holdfast::comm {

// Calls that do not wait for the trial: a program that makes more of them before it lets another
// rank go on to its first one would wait in vain.
inline constexpr std::uint32_t kTrialCalls = 4;

class PathAgreement final {
 public:
  enum class Path : std::uint8_t { kStaged, kDirect };
  enum class PathVerdict : std::uint8_t {
    kDirect,
    kStaged,
    kAgain,  // a member was lost in the middle
  };
  struct PathChoice {
    Path path = Path::kStaged;
    std::uint64_t trial = 0;  // argument for conclude(); 0: no trial is due
  };

  // The choice for the next call that could go directly, in call order. `boundary`:
  // Communicator::boundary(). May wait for the trial, as long as an op may take: kTimeout then.
  // `renew`: number of calls after which a trial is worth repeating; 0: never. Any thread but the
  // runtime's.
  Result<PathChoice> choose(Epoch boundary, Duration timeout, std::uint32_t renew = 0);
  // The result of a trial, the same on all members. Any thread.
  void conclude(std::uint64_t trial, PathVerdict verdict);

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable concluded_;
  Epoch boundary_;
  std::uint64_t trial_ = 0;  // the latest; 0: none yet
  std::uint32_t calls_ = 0;  // calls since the trial was called, itself included
  bool known_ = false;
  PathVerdict verdict_{};
};

}  // namespace holdfast::comm
