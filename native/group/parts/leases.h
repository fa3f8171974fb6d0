// Leases: the areas that the members of a derived group have in each other's segments, which they
// all have mapped already (comm/engine/area_room.h). Each member says in its own segment which area
// it has for the group, or that it has none, and that stands until it is done with the group; so
// all members find the same, in whichever view. That a member has taken its lease back tells the
// others that it needs nothing more of theirs.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0138-groups-without-a-meeting.md
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "comm/engine/host_peer.h"
#include "group/parts/roster.h"

namespace holdfast::group {

class Leases {
 public:
  // `lessors`: by rank of the group, where its member's segment is mapped here; empty: nothing is
  // leased. All other members know this alike.
  Leases(CommId group, Rank self, std::vector<comm::HostPeer> lessors);
  bool exist() const { return !lessors_.empty(); }
  // The members that the group begins with.
  void found(const std::vector<MemberId>& members) { members_ = members; }
  // Takes this member's lease, if it has none yet.
  void take();
  // Takes it already now if areas are plentiful: the first op then waits for nobody.
  void take_early();
  bool has_begun() const { return own_.has_value(); }
  // Looks for the leases of these ranks that are not known yet.
  void look(const std::vector<Rank>& ranks);
  // Those whose leases are not known.
  std::vector<Rank> awaited(const std::vector<Rank>& ranks) const;
  // The areas of these ranks, by rank of the group; nothing: one of them has none.
  std::optional<std::vector<comm::HostPeer>> areas(const std::vector<Rank>& ranks) const;

  // This member knows the leases of all others that are there.
  void note_seen();
  // This member's ops have ended: it reads no other's area any more. At once: others that have not
  // seen its lease never will.
  void end();
  // The same, once all others have seen its lease. Returns whether it has ended.
  bool try_end(const std::function<bool(MemberId)>& acts);
  // Whether no other member reads this one's area, or needs its results. `acts(member)`: whether
  // the member may still do anything at all.
  bool have_others_ended(const std::function<bool(MemberId)>& acts) const;
  // To be called when others have ended, or never will: the area is another group's next.
  void release();
  // Where groups that are derived from this one lease their areas.
  const std::vector<comm::HostPeer>& lessors() const { return lessors_; }

 private:
  comm::HostPeer& own_lessor() { return lessors_[static_cast<std::size_t>(self_.value)]; }

  const CommId group_;
  const Rank self_;
  std::vector<comm::HostPeer> lessors_;
  std::vector<MemberId> members_;  // by rank
  std::optional<comm::Lease> own_;
  std::vector<comm::Lease> leases_;  // by rank, as far as they are known; others' as they were seen
  bool ended_ = false;
};

}  // namespace holdfast::group
