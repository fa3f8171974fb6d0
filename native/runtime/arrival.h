// Arrival: how a process gets into a world that exists, or, in an elastic group, into one that is
// about to begin: it calls the coordinator, or whoever stands in the store, waits in the lobby, and
// is admitted at the members' next step boundary.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/store.h"
#include "ft/group.h"
#include "ft/joining.h"
#include "runtime/node.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

class Arrival {
 public:
  // `request.rank` -1: any rank of an elastic group that begins with `min_peers` members.
  Arrival(std::shared_ptr<Runtime> runtime, const JoinRequest& request, Duration timeout,
          std::size_t min_peers = 0);
  // Whether a process has had this rank when the group began, by what the store says. kNotMember: a
  // living one has it, and the group has not begun.
  static Result<bool> is_due(Runtime& runtime, Store& store, const JoinRequest& request);
  // Takes the vacant rank of a predecessor whose card is in the store.
  Result<std::shared_ptr<ft::Group>> rejoin(Store& store);
  // Goes by the runtime's coordinator alone.
  Result<std::shared_ptr<ft::Group>> join();

 private:
  Status read_cards(Store& store);
  Result<std::shared_ptr<ft::Group>> run();
  bool reaches_members() const;
  // One look at the lobby; ok while there is hope.
  Status look(Instant now);
  void look_for_contacts();
  Result<std::shared_ptr<ft::Group>> enter(const ft::Message& decision);

  std::shared_ptr<Runtime> runtime_;
  const JoinRequest& request_;
  Instant deadline_;
  Instant hope_until_{};  // of one who goes by the store: as long as members are within reach
  std::vector<Card> contacts_;
  std::vector<bool> met_;  // by contact
  ft::Joining joining_;
};

// Waits until the coordinator knows the worlds of this process. kConfigError with its refusal;
// kProtocolError when what answers is no coordinator; kTimeout.
Status meet_coordinator(Runtime& runtime, Duration timeout);

}  // namespace holdfast::runtime
