// Coordinator search: whom to call next to find the coordinator, which leads at one of several
// endpoints at most. One that refuses costs little time; one that is silent costs a moment, and its
// call stays open beside the others', so that a slow host is found as well. Rounds go on until the
// caller gives up. Sans-IO: it makes no call itself.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/net/socket.h"
#include "base/result.h"
#include "base/types.h"

namespace holdfast::runtime {

// After a refusal the next is called; and the only one again, which may be about to start.
inline constexpr Duration kAfterRefusal = std::chrono::milliseconds(50);
// A host that is there answers within this time on nearly all networks.
inline constexpr Duration kAfterSilence = std::chrono::seconds(1);

class CoordinatorSearch {
 public:
  // The endpoints of each host, in the order in which they are called. Known ones keep their calls
  // and failures.
  void set_hosts(const std::vector<std::vector<Endpoint>>& hosts, Instant now);
  // The coordinator is to be found, unless it is being sought: begins where it was found last.
  void begin(Instant now);
  // Whom to call now. nullopt: nobody before due().
  std::optional<Endpoint> next(Instant now);
  Instant due() const { return due_; }
  // A call has ended, and there is no coordinator.
  void on_failure(const Endpoint& at, const Status& why, Instant now);
  // A call has found the coordinator; the others are given up.
  void on_found(const Endpoint& at);

  // Since when it has been sought; nullopt: it is not.
  std::optional<Instant> since() const { return since_; }
  // What was wrong at each endpoint when it was called last; empty: none has been called.
  std::string text() const;
  // Calling again is of no use: a coordinator does not let this process in (kAuthFailed), or what
  // answers at each host is something else. Ok: not so.
  Status hopeless() const;

 private:
  struct Place {
    Endpoint at;
    std::size_t host;
    bool open = false;  // a call is under way
    Status failure = Status::ok();
  };
  Place* find(const Endpoint& at);

  std::vector<Place> places_;
  std::size_t hosts_ = 0;
  std::size_t turn_ = 0;          // the place that is next
  std::optional<Endpoint> last_;  // where it was found last
  std::optional<Instant> since_;
  Instant due_{};
};

}  // namespace holdfast::runtime
