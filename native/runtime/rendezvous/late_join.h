// LateJoin: how a process joins a world that exists, or, in an elastic group, one that is about to
// begin: it calls the coordinator, or the members whose cards are in the store, waits in the lobby,
// and is admitted at the members' next step boundary.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/store.h"
#include "ft/joining.h"
#include "group/group.h"
#include "runtime/node.h"
#include "runtime/rendezvous/life.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

class LateJoin {
 public:
  // `request.rank` -1: any rank, of an elastic group that begins with `min_peers` members.
  LateJoin(std::shared_ptr<Runtime> runtime, const JoinRequest& request, Instant deadline,
           std::size_t min_peers = 0);
  // The role of a process in a life of the group, by what the store has for its rank.
  enum class LifeStanding : std::uint8_t {
    kFounder,    // no process of this rank has been ready for it
    kSuccessor,  // another process of this rank has been ready: the group may have begun
    kWasThere,   // this process has been ready, and its part is over
  };
  // kNotMember: another living process has the rank, and the group has not begun.
  static Result<LifeStanding> find_standing(Runtime& runtime, Store& store,
                                            const JoinRequest& request, const Life& life);
  // Takes the vacant rank of a predecessor whose card is in the store. Null: no member of that life
  // is alive any more, and the life is over.
  Result<std::shared_ptr<group::Group>> rejoin(Store& store, const Life& life);
  // Joins by the runtime's coordinator alone.
  Result<std::shared_ptr<group::Group>> join();

 private:
  Status read_cards(Store& store, const Life& life);
  // Waits to be admitted. `life`: null, or a life in `store`; its end ends the wait.
  Result<std::shared_ptr<group::Group>> run(Store* store, const Life* life);
  bool reaches_members() const;
  bool are_all_refused() const;
  Duration hope() const;
  bool have_all_left() const;
  Status look_at_members(Instant now);
  void tell_of_wait(Instant now);
  Status check_others();
  // One look at the lobby; ok while this process may still be admitted.
  Status look(Instant now);
  void look_for_contacts();
  Result<std::shared_ptr<group::Group>> enter(const ft::Message& decision);

  std::shared_ptr<Runtime> runtime_;
  const JoinRequest& request_;
  Instant deadline_;
  Instant hope_until_{};  // used by rejoin(): moves on while members are within reach
  Instant tell_at_{Duration::max()};
  std::string told_reason_;     // the reason for waiting that the user was told last
  bool deserted_ = false;       // no member is left
  std::vector<Card> members_;   // members of the life, as the store has them
  std::vector<Card> contacts_;  // processes it asks: members_, or the coordinator
  std::vector<bool> met_;       // whether connected once, by contact
  std::set<MemberId> checked_;  // by check_others(), which last looked at these changes:
  std::uint64_t checked_changes_ = 0;
  ft::Joining joining_;
};

// Waits until the coordinator knows the worlds of this process. kConfigError with its refusal;
// kProtocolError when the process that answers is no coordinator; kTimeout.
Status meet_coordinator(Runtime& runtime, Duration timeout);

}  // namespace holdfast::runtime
