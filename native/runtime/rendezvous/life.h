// Life: which of the lives that a group has had in a store. A job that is started anew over the
// same store begins another one, and reads nothing of those before. A life is over for good once
// anybody has said so who found none of its members alive; a mark that is only ever set needs no
// atomic operation of the store. Whoever waits for others in a life looks for the mark, and goes on
// to the next one.
//
// Also how the store is waited for: in looks, for waits that end in vain make torch's stores warn.
// Why: docs/decisions/0118-a-group-has-lives.md
#pragma once

#include <cstdint>
#include <string>

#include "base/store.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

// For what is in the store.
inline constexpr Duration kStoreLook = std::chrono::seconds(5);

// A group's place in the store: its name, and who is in it where the caller says so.
std::string place_of(const JoinRequest& request);

class Life {
 public:
  // The first that is not over.
  static Result<Life> find(Store& store, const JoinRequest& request);
  Life(std::string place, std::uint64_t number) : place_(std::move(place)), number_(number) {}

  std::uint64_t number() const { return number_; }
  // Where a rank's part in a round of a meeting lies in the store: "card", then "ready".
  std::string key(const std::string& round, Rank rank) const;
  // Whether it begins at all: some may find all members there, and others one dead among them. The
  // first word counts; `begins` is this one's.
  Result<bool> decide(Store& store, bool begins) const;
  Result<bool> is_over(Store& store) const;
  Status end(Store& store) const;

 private:
  std::string prefix() const;

  std::string place_;
  std::uint64_t number_;
};

// Looks now and then: often at first, and the longer it has taken, the less often.
class Lookout {
 public:
  Lookout(Runtime& runtime, Instant deadline)
      : runtime_(runtime), began_(runtime.clock()->now()), deadline_(deadline) {}
  // Whether the key is there, as far as this store can tell.
  Result<bool> sees(Store& store, const std::string& key) const;
  // Lends the thread to the runtime until the next look; false when the time is over.
  bool rest();

 private:
  Runtime& runtime_;
  Instant began_;
  Instant deadline_;
};

}  // namespace holdfast::runtime
