// Coordinator search: resolves the coordinator's name again while the coordinator cannot be
// reached. It does so on a thread of its own: a name server may take half a minute to answer.
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
  // `find` finds the coordinator's card and may block. A search may outlive this object, so `find`
  // must refer to nothing that it does not own.
  explicit CoordinatorSearch(Find find) : find_(std::move(find)) {}

  // Begins a search, unless one is under way or the last was a moment ago.
  void look(Instant now);
  // The card that an ended search has found; each is returned once.
  std::optional<Card> take();

 private:
  struct Answer;
  Find find_;
  std::shared_ptr<Answer> answer_;  // owners: this and the search's thread
  Instant next_look_{};
};

}  // namespace holdfast::runtime
