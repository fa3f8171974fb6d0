// LateJoin: how a process gets into a world that exists, or, in an elastic group, into one that is
// about to begin: it calls the coordinator, or whoever stands in the store, waits in the lobby, and
// is admitted at the members' next step boundary.
#pragma once

#include <memory>
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
  // `request.rank` -1: any rank of an elastic group that begins with `min_peers` members.
  LateJoin(std::shared_ptr<Runtime> runtime, const JoinRequest& request, Instant deadline,
           std::size_t min_peers = 0);
  // What a process is to a life of the group, by what the store says of its rank.
  enum class LifeStanding : std::uint8_t {
    kFounder,    // nobody of this rank has been ready for it
    kSuccessor,  // another process has: the group may have begun
    kWasThere,   // this process has, and has done with it
  };
  // kNotMember: a living one has the rank, and the group has not begun.
  static Result<LifeStanding> find_standing(Runtime& runtime, Store& store,
                                            const JoinRequest& request, const Life& life);
  // Takes the vacant rank of a predecessor whose card is in the store. Nothing: nobody of that life
  // is alive any more, and it is over.
  Result<std::shared_ptr<ft::Group>> rejoin(Store& store, const Life& life);
  // Goes by the runtime's coordinator alone.
  Result<std::shared_ptr<ft::Group>> join();

 private:
  Status read_cards(Store& store, const Life& life);
  // Looks for the end of the life, if one is given, which is a store's.
  Result<std::shared_ptr<ft::Group>> run(Store* store, const Life* life);
  bool reaches_members() const;
  bool are_all_refused() const;
  Duration hope() const;
  bool have_all_left() const;
  Status look_at_members(Instant now);
  void tell_of_wait(Instant now);
  // One look at the lobby; ok while there is hope.
  Status look(Instant now);
  void look_for_contacts();
  Result<std::shared_ptr<ft::Group>> enter(const ft::Message& decision);

  std::shared_ptr<Runtime> runtime_;
  const JoinRequest& request_;
  Instant deadline_;
  Instant hope_until_{};  // of one who goes by the store: as long as members are within reach
  Instant tell_at_{Duration::max()};
  std::string told_reason_;     // of its wait
  bool deserted_ = false;       // nobody is left
  std::vector<Card> members_;   // of the life, as the store has them
  std::vector<Card> contacts_;  // whom it asks: they, or the coordinator
  std::vector<bool> met_;       // by contact
  ft::Joining joining_;
};

// Waits until the coordinator knows the worlds of this process. kConfigError with its refusal;
// kProtocolError when what answers is no coordinator; kTimeout.
Status meet_coordinator(Runtime& runtime, Duration timeout);

}  // namespace holdfast::runtime
