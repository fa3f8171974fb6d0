// Rejoin: how a process that was started again takes the vacant rank of its predecessor: it calls
// whoever stands in the store, waits in the lobby, and is admitted at the members' next step
// boundary.
#pragma once

#include <memory>
#include <vector>

#include "base/store.h"
#include "ft/group.h"
#include "ft/joining.h"
#include "runtime/node.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

class Rejoin {
 public:
  Rejoin(std::shared_ptr<Runtime> runtime, Store& store, const JoinRequest& request,
         Duration timeout);
  // Whether a process has had this rank before, by what the store says.
  static Result<bool> is_due(Store& store, const JoinRequest& request);
  Result<std::shared_ptr<ft::Group>> run();

 private:
  Status read_cards();
  // One look at the lobby; ok while there is hope.
  Status look();
  Result<std::shared_ptr<ft::Group>> enter(const ft::Message& decision);

  std::shared_ptr<Runtime> runtime_;
  Store& store_;
  const JoinRequest& request_;
  Instant deadline_;
  std::vector<Card> others_;
  std::vector<bool> met_;  // by other
  ft::Joining joining_;
};

}  // namespace holdfast::runtime
