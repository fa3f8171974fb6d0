// View memory: the areas that the members of a group's view have of each other, and what they may
// do with them. What the last view had agreed on holds for those of it that are left: by all
// members' word, so that all decide alike. Else they agree anew (group/sharing.h), if their cards
// say that they may share memory; the view's ops wait meanwhile.
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
  // `areas`: by rank, of a group that is made; empty: none are shared. `roster` outlives it.
  ViewMemory(std::vector<comm::HostPeer> areas, const Roster& roster, Sharing sharing)
      : areas_(std::move(areas)), roster_(roster), sharing_(std::move(sharing)) {}

  // The roster is that of another view than the one with these members.
  void take_view(const std::vector<MemberId>& before);
  // The group's first view, of members that were there when it was made.
  void found();
  // Another view: by what the members of the last one had agreed on, or else, if they `may_share`,
  // they begin to agree.
  void enter(bool may_share, const GroupReports& reports);
  bool is_under_way() const { return sharing_.is_under_way(); }
  void hear(MemberId from, Epoch epoch, std::span<const std::byte> payload) {
    sharing_.hear(from, epoch, payload);
  }
  // Whether the members have agreed by now.
  bool settle();
  // Whose word that waits for.
  std::vector<MemberId> awaited() const { return sharing_.awaited(); }
  void stop() { sharing_.stop(); }

  SharedMemory shared() const { return shared_; }
  // Of those who are there; a group may begin with vacant places.
  std::vector<comm::HostPeer> areas_present() const;
  // Nobody is to find this member's area any more.
  void unlink_own();

 private:
  std::vector<comm::HostPeer> areas_;  // by rank; empty: none are shared
  const Roster& roster_;
  Sharing sharing_;
  SharedMemory shared_ = SharedMemory::kUnknown;
};

}  // namespace holdfast::group
