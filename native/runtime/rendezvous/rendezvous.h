// Rendezvous: how the members of a new group find each other: cards through the store, then
// connections, then one more round through the store in which each member votes: that it is ready,
// what memory it could map, and which world it takes the group to be part of.
//
// A rank may die meanwhile and be started again. Until a rank has voted, a process that writes the
// rank's card anew takes its place; the vote is written once, and names its process, so that all
// members take the same processes. A process that is started again after that joins late, as in any
// group that has begun (runtime/rendezvous/late_join.h). When no member of such a group is left,
// the next life begins (runtime/rendezvous/life.h).
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
  // Null: the life is over, and another one has begun.
  Result<std::shared_ptr<group::Group>> run();

 private:
  // What every member writes to the store before the group begins.
  struct ReadyVote {
    std::string memory;  // as usable_memory() returns it
    CommId world;        // the world that all members are in; 0: none yet
    Epoch epoch;         // of the member's view of that world
    MemberId member;     // the member that votes
  };

  Status exchange_cards();
  Result<bool> await(const std::string& round, Rank rank);
  Status look_for_end();
  Result<Card> read_card(Rank rank);
  Status connect();
  Status connect_error(const std::vector<Rank>& missing);
  std::vector<Rank> absent();
  bool is_sparse() const;
  bool wants(MemberId member) const;
  // Looks now and then whether absent processes have been replaced.
  Status look_for_successors();
  Status look_at_absence(Rank rank);
  Status take_successor(Rank rank);
  Result<std::shared_ptr<group::Group>> create();
  Result<std::vector<ReadyVote>> exchange_votes(const ReadyVote& own);
  Status missing_error(const std::string& round, Rank first);
  Status lost_error(Rank rank) const;
  std::vector<comm::HostPeer> open_flat();
  std::optional<comm::HostPeer> open_flat_of(Rank rank);
  ReadyVote own_vote();
  static std::string encode_vote(const ReadyVote& vote);
  static Result<ReadyVote> parse_vote(const std::string& text);
  Result<group::GroupConfig> agree(const std::vector<ReadyVote>& votes);
  std::shared_ptr<group::World> make_world();
  Duration left() const;
  std::string key(const std::string& round, Rank rank) const;

  std::shared_ptr<Runtime> runtime_;
  Store& store_;
  const JoinRequest& request_;
  const Life& life_;
  Instant deadline_;
  std::optional<group::OwnArea> own_area_;
  bool is_ready_ = false;  // this member has voted
  bool over_ = false;      // the life is over
  std::vector<comm::HostPeer> flat_;
  std::vector<Card> cards_;
  Instant next_look_;                     // next look for successors
  Instant next_end_look_;                 // next look for the life's end
  std::map<Rank, Instant> absent_since_;  // by rank, of absent members that had voted
};

}  // namespace holdfast::runtime
