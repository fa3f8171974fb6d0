// Life: one of the lives that a group has had in a store. A job that is started anew over the same
// store begins the next life, and reads nothing of those before. A life is over for good once a
// process that found none of its members alive has marked it; a mark that is only ever set needs
// no atomic operation of the store. A process that waits for others in a life looks for the mark,
// and goes on to the next life.
//
// Lookout polls the store instead of waiting in it, because a wait that times out makes torch's
// stores warn.
// Why: docs/decisions/0118-a-group-has-lives.md
#pragma once

#include <cstdint>
#include <string>

#include "base/store.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

// Time limit of reading a key that is in the store.
inline constexpr Duration kStoreLook = std::chrono::seconds(5);

// A group's place in the store: its name, and who is in it where the caller says so.
std::string place_of(const JoinRequest& request);

class Life {
 public:
  // The first life that is not over.
  static Result<Life> find(Store& store, const JoinRequest& request);
  Life(std::string place, std::uint64_t number) : place_(std::move(place)), number_(number) {}

  std::uint64_t number() const { return number_; }
  // Key of a rank's part in a round of the rendezvous; the rounds are "card", then "ready".
  std::string key(const std::string& round, Rank rank) const;
  // Decides whether the life begins at all: some members may find all others there, and others find
  // one dead. The first vote counts; `begins` is this process's vote.
  Result<bool> decide(Store& store, bool begins) const;
  Result<bool> is_over(Store& store) const;
  Status end(Store& store) const;

 private:
  std::string prefix() const;

  std::string place_;
  std::uint64_t number_;
};

// Paces looks at the store: frequent at first, and the longer the wait, the rarer.
class Lookout {
 public:
  Lookout(Runtime& runtime, Instant deadline)
      : runtime_(runtime), began_(runtime.clock()->now()), deadline_(deadline) {}
  // Whether the key is in the store, as far as the store can tell.
  Result<bool> sees(Store& store, const std::string& key) const;
  // Lends the thread to the runtime until the next look; false when the time is over.
  bool rest();

 private:
  Runtime& runtime_;
  Instant began_;
  Instant deadline_;
};

}  // namespace holdfast::runtime
