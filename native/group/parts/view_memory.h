// View memory: the areas that the members of a group's view have of each other, and what they may
// do with them. What the members of the last view agreed on holds for those that are left; all
// members' reports tell it, so all decide alike. Otherwise they agree anew (group/sharing.h), if
// their cards say that they may share memory; the view's ops wait meanwhile.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0116-shared-memory-after-an-arrival.md
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "comm/engine/host_peer.h"
#include "group/parts/leases.h"
#include "group/parts/roster.h"
#include "group/report.h"
#include "group/sharing.h"

namespace holdfast::group {

class ViewMemory {
 public:
  // `areas`: by rank, of a new group; empty: none are shared. `roster` outlives it.
  // `leases`: those of a derived group, which has no other areas; nothing: it is not derived.
  ViewMemory(std::vector<comm::HostPeer> areas, const Roster& roster, Sharing sharing,
             std::optional<Leases> leases = {})
      : areas_(std::move(areas)),
        roster_(roster),
        sharing_(std::move(sharing)),
        leases_(std::move(leases)) {}

  // The roster has changed from a view with the members `before`.
  void take_view(const std::vector<MemberId>& before);
  // Begins the group's first view, of members that were there when it was made. Where areas are
  // leased, the members then know each other's.
  void found();
  // Takes part in what the view's ops wait for, where areas are leased.
  void lease() {
    if (leasing_) leases_->take();
  }
  // Enters another view: keeps what the members of the last one had agreed on, or else, if they
  // `may_share`, begins to agree.
  void enter(bool may_share, const GroupReports& reports);
  bool is_under_way() const { return leasing_ || sharing_.is_under_way(); }
  // Under way, and what it waits for comes through shared memory.
  bool is_leasing() const { return leasing_; }
  void hear(MemberId from, Epoch epoch, std::span<const std::byte> payload) {
    sharing_.hear(from, epoch, payload);
  }
  // Whether the members have agreed by now.
  bool settle();
  // Members that settle() waits for.
  std::vector<MemberId> awaited() const;
  void stop() {
    sharing_.stop();
    leasing_ = false;
  }

  SharedMemory shared() const { return shared_; }
  // The areas of present members; a group may begin with vacant ranks.
  std::vector<comm::HostPeer> areas_present() const;
  // The rank's area; null: none is shared with it.
  const comm::HostPeer* area_of(Rank rank) const {
    const auto r = static_cast<std::size_t>(rank.value);
    return r < areas_.size() && areas_[r].segment != nullptr ? &areas_[r] : nullptr;
  }
  // Unlinks this member's area, so that no process finds it any more; a leased one has no name.
  void unlink_own();
  // Null: the group is not derived.
  Leases* leases() { return leases_ ? &*leases_ : nullptr; }
  // Whether this member has a lease, and has not been let go.
  bool has_lease() const { return leases_ && leases_->has_begun(); }
  // Where a group of these ranks leases its areas: by rank; empty: nowhere.
  std::vector<comm::HostPeer> lessors_of(const std::vector<Rank>& ranks) const;

 private:
  std::vector<comm::HostPeer> areas_;  // by rank; empty: none are shared
  const Roster& roster_;
  Sharing sharing_;
  std::optional<Leases> leases_;
  bool leasing_ = false;
  SharedMemory shared_ = SharedMemory::kUnknown;
};

}  // namespace holdfast::group
