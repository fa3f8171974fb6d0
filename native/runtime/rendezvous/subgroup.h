// Subgroup: how members of a world make a group among themselves. They are connected already, and
// agree on the members: in each view of the world, the members of the group's ranks write to the
// store what memory they open and what they can use of the others'. A member that has read all
// votes of a view decides for it, with a key that is set once; ranks that are vacant in that view
// are vacant in the group. If a view ends before all have voted, another round begins: no rank
// waits for a dead one.
//
// Where a loss is to raise, a vacant rank is decided in the same way: all members fail, or none
// does.
// Why: docs/decisions/0119-the-first-view-of-a-subgroup.md
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/store.h"
#include "comm/call/call.h"
#include "group/world.h"
#include "runtime/node.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

class Lookout;

class Subgroup {
 public:
  struct GroupPlace {
    std::shared_ptr<group::World> world;  // owners: the world's groups, and this while it makes one
    std::vector<Rank> ranks;              // ranks of the world, by rank of the group
  };
  Subgroup(std::shared_ptr<Runtime> runtime, Store& store, const JoinRequest& request,
           GroupPlace place, Instant deadline);
  Result<std::shared_ptr<group::Group>> run();

 private:
  // One view of the world, as far as it concerns the group.
  struct ViewRound {
    Epoch epoch;
    std::vector<MemberId> members;  // by rank; kNobody where vacant
    std::vector<std::string> hosts;
    std::map<Rank, comm::HostPeer> areas;  // areas that could be opened
    std::size_t looked_at = 0;             // ranks below it have been looked at by open_areas()
    bool spoken = false;
    std::vector<std::string> votes;  // by rank; empty where vacant
  };
  using Made = Result<std::shared_ptr<group::Group>>;

  Made make();
  Status find_number();
  Status lay_open();
  Result<bool> look_at_view();
  ViewRound round_of(const ft::WorldView& view) const;
  std::vector<Rank> vacant() const;
  // Each step returns the rank whose part is still missing; nullopt: the step is done.
  Result<std::optional<Rank>> step(const Lookout& lookout);
  Result<std::optional<Rank>> open_areas(const Lookout& lookout);
  Status speak();
  Result<std::optional<Rank>> hear_votes(const Lookout& lookout);
  Result<std::string> decide(const std::string& text);
  Result<std::optional<std::string>> decision();
  Made conclude(const std::string& decision);
  Made begin(Epoch epoch, CommId id);
  std::vector<comm::HostPeer> areas(bool compact) const;
  Status lost(const std::vector<Rank>& ranks) const;
  Status late(Rank awaited) const;
  std::string key(const std::string& what) const;
  std::string key(const std::string& what, MemberId member) const;

  std::shared_ptr<Runtime> runtime_;
  Store& store_;
  const JoinRequest& request_;
  const GroupPlace place_;
  const Instant deadline_;
  std::uint64_t number_ = 0;  // counts the groups of this name and these members in this world
  std::optional<comm::HostPeer> own_area_;
  std::string own_name_;  // of the own area's segment; empty without shared memory
  ViewRound round_;
  int rounds_ = 0;
};

}  // namespace holdfast::runtime
