// Relay list: the relays that a member knows, and what became of its calls to them.
#pragma once

#include <cstddef>
#include <vector>

#include "base/net/socket.h"
#include "base/result.h"
#include "base/types.h"

namespace holdfast::runtime {

struct KnownRelay {
  Endpoint at;
  Status failure = Status::ok();
  bool failed = false;  // since it worked last
  bool registered = false;
  Instant not_before{};  // to register there
};

class RelayList {
 public:
  // Those that are known keep what is known of them.
  void set(const std::vector<Endpoint>& places);
  bool empty() const { return relays_.empty(); }
  std::vector<KnownRelay>& all() { return relays_; }
  // nullptr: it is not in the list any more.
  KnownRelay* find(const Endpoint& at);
  // The next one, in turn.
  const KnownRelay& next() { return relays_[turn_++ % relays_.size()]; }
  // Where this process is registered, which is the likeliest to have others; else the next one.
  const KnownRelay& best();
  void note_failure(const Endpoint& at, const Status& why);
  // Not ok: all have failed. kConfigError: one of them for good: it refuses this process, or is
  // none.
  Status trouble() const;

 private:
  std::vector<KnownRelay> relays_;
  std::size_t turn_ = 0;
};

}  // namespace holdfast::runtime
