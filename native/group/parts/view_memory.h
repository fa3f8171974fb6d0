// View memory: the areas that the members of a group's view have of each other, and what they may
// do with them. What the members of the last view agreed on holds for those that are left; all
// members' reports tell it, so all decide alike. Otherwise they agree anew (group/sharing.h), if
// their cards say that they may share memory; the view's ops wait meanwhile.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0116-shared-memory-after-an-arrival.md
#pragma once

#include <span>
#include <vector>

#include "comm/engine/host_peer.h"
#include "group/parts/roster.h"
#include "group/report.h"
#include "group/sharing.h"

namespace holdfast::group {

class ViewMemory {
 public:
  // `areas`: by rank, of a new group; empty: none are shared. `roster` outlives it.
  ViewMemory(std::vector<comm::HostPeer> areas, const Roster& roster, Sharing sharing)
      : areas_(std::move(areas)), roster_(roster), sharing_(std::move(sharing)) {}

  // The roster has changed from a view with the members `before`.
  void take_view(const std::vector<MemberId>& before);
  // Begins the group's first view, of members that were there when it was made.
  void found();
  // Enters another view: keeps what the members of the last one had agreed on, or else, if they
  // `may_share`, begins to agree.
  void enter(bool may_share, const GroupReports& reports);
  bool is_under_way() const { return sharing_.is_under_way(); }
  void hear(MemberId from, Epoch epoch, std::span<const std::byte> payload) {
    sharing_.hear(from, epoch, payload);
  }
  // Whether the members have agreed by now.
  bool settle();
  // Members that settle() waits for.
  std::vector<MemberId> awaited() const { return sharing_.awaited(); }
  void stop() { sharing_.stop(); }

  SharedMemory shared() const { return shared_; }
  // The areas of present members; a group may begin with vacant ranks.
  std::vector<comm::HostPeer> areas_present() const;
  // Unlinks this member's area, so that no process finds it any more.
  void unlink_own();

 private:
  std::vector<comm::HostPeer> areas_;  // by rank; empty: none are shared
  const Roster& roster_;
  Sharing sharing_;
  SharedMemory shared_ = SharedMemory::kUnknown;
};

}  // namespace holdfast::group
