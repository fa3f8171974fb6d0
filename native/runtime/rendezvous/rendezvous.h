// Rendezvous: how the members of a new group find each other: cards through the store, then
// connections, then one more round through the store in which everybody says it is ready, what it
// could map, and which world it takes the group to be part of.
//
// A rank may die meanwhile and be started again. Until it has said that it is ready, a process that
// writes the rank's card anew takes its place; that vote is written once, and names its process, so
// that all go by the same ones. Who is started again after that comes as to any group that has
// begun (runtime/rendezvous/late_join.h). When nobody of such a group is left, the next life begins
// (runtime/rendezvous/life.h).
// Why: docs/decisions/0102-replaced-at-the-meeting.md
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/store.h"
#include "group/group.h"
#include "runtime/node.h"
#include "runtime/rendezvous/life.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

class Rendezvous {
 public:
  Rendezvous(std::shared_ptr<Runtime> runtime, Store& store, const JoinRequest& request,
             const Life& life, Instant deadline);
  // Nothing: the life is over, and another one has begun.
  Result<std::shared_ptr<ft::Group>> run();

 private:
  // What every member says before the group begins.
  struct ReadyVote {
    std::string memory;  // as usable_memory() says
    CommId world;        // that all members are in; 0: none yet
    Epoch epoch;         // of its view there
    MemberId member;     // who says it
  };

  Status exchange_cards();
  Result<bool> await(const std::string& round, Rank rank);
  Status look_for_end();
  Result<Card> read_card(Rank rank);
  Status connect();
  Status connect_error(const std::vector<Rank>& missing);
  std::vector<Rank> absent();
  // Whether processes that are not there have been replaced; now and then.
  Status look_for_successors();
  Status look_at_absence(Rank rank);
  Status take_successor(Rank rank);
  Result<std::shared_ptr<ft::Group>> create();
  Result<std::vector<ReadyVote>> exchange_votes(const ReadyVote& own);
  Status missing_error(const std::string& round, Rank first);
  Status lost_error(Rank rank) const;
  std::vector<comm::HostPeer> open_flat();
  std::optional<comm::HostPeer> open_flat_of(Rank rank);
  ReadyVote own_vote();
  static std::string encode_vote(const ReadyVote& vote);
  static Result<ReadyVote> parse_vote(const std::string& text);
  Result<ft::GroupConfig> agree(const std::vector<ReadyVote>& votes);
  std::shared_ptr<ft::World> make_world();
  Duration left() const;
  std::string key(const std::string& round, Rank rank) const;

  std::shared_ptr<Runtime> runtime_;
  Store& store_;
  const JoinRequest& request_;
  const Life& life_;
  Instant deadline_;
  std::optional<ft::OwnArea> own_area_;
  bool is_ready_ = false;  // this member has said so
  bool over_ = false;      // the life
  std::vector<comm::HostPeer> flat_;
  std::vector<Card> cards_;
  Instant next_look_;                     // for successors
  Instant next_end_look_;                 // for the life's end
  std::map<Rank, Instant> absent_since_;  // of those that had said that they were ready
};

}  // namespace holdfast::runtime
