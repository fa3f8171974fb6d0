// Coordinator search: asks where the coordinator's name leads by now, while it cannot be reached,
// on a thread of its own: a name server may take half a minute to say nothing.
//
// Thread: only the holder of the runtime.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "runtime/rendezvous/card.h"

namespace holdfast::runtime {

class CoordinatorSearch {
 public:
  using Find = std::function<Result<Card>()>;
  // `find` says how to call it; it waits, and outlives nothing: a search may outlive this.
  explicit CoordinatorSearch(Find find) : find_(std::move(find)) {}

  // Begins a search, unless one is under way or the last was a moment ago.
  void look(Instant now);
  // What a search that has ended found, once.
  std::optional<Card> take();

 private:
  struct Answer;
  Find find_;
  std::shared_ptr<Answer> answer_;  // owners: this and the thread
  Instant next_look_{};
};

}  // namespace holdfast::runtime
