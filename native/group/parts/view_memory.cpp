#include "group/parts/view_memory.h"

#include <algorithm>

namespace holdfast::group {

void ViewMemory::take_view(const std::vector<MemberId>& before) {
  for (std::size_t r = 0; r < before.size() && r < areas_.size(); ++r) {
    if (before[r] != roster_.members[r]) areas_[r].segment.reset();
  }
}

void ViewMemory::found() {
  if (leases_) leases_->found(roster_.members);
  if (leases_ && leases_->exist()) {
    leasing_ = roster_.present.size() > 1;
    return;
  }
  shared_ = what_is_shared(areas_present(), roster_.own_place());
}

void ViewMemory::enter(bool may_share, const GroupReports& reports) {
  // Members of a derived group only go, and what each has leased stands.
  if (leases_) {
    leasing_ = leases_->exist() && shared_ == SharedMemory::kUnknown && roster_.present.size() > 1;
    return;
  }
  SharedMemory least = SharedMemory::kReach;
  std::vector<MemberId> members = roster_.members_present();
  for (const MemberId member : members) {
    const auto said = std::find_if(reports.begin(), reports.end(),
                                   [&](const auto& report) { return report.first == member; });
    least = std::min(least, said == reports.end() ? SharedMemory::kUnknown : said->second->shared);
  }
  shared_ = least;
  if (shared_ != SharedMemory::kUnknown) return;
  areas_.clear();
  if (members.size() < 2 || !may_share) {
    shared_ = SharedMemory::kNone;
    return;
  }
  sharing_.begin(roster_.epoch, std::move(members));
}

bool ViewMemory::settle() {
  if (leasing_) {
    if (!leases_->has_begun()) return false;
    leases_->look(roster_.present);
    if (!leases_->awaited(roster_.present).empty()) return false;
    leasing_ = false;
    leases_->note_seen();
    areas_ = leases_->areas(roster_.present).value_or(std::vector<comm::HostPeer>());
    shared_ = what_is_shared(areas_present(), roster_.own_place());
    return true;
  }
  const auto agreed = sharing_.agreed();
  if (!agreed) return false;
  shared_ = *agreed;
  std::vector<comm::HostPeer> areas = sharing_.take_areas();
  if (!areas.empty()) areas_.resize(roster_.members.size());
  for (std::size_t i = 0; i < areas.size(); ++i) {
    areas_[static_cast<std::size_t>(roster_.present[i].value)] = std::move(areas[i]);
  }
  return true;
}

std::vector<MemberId> ViewMemory::awaited() const {
  if (!leasing_) return sharing_.awaited();
  std::vector<MemberId> members;
  for (const Rank rank : leases_->awaited(roster_.present)) members.push_back(roster_.member(rank));
  return members;
}

std::vector<comm::HostPeer> ViewMemory::lessors_of(const std::vector<Rank>& ranks) const {
  const std::vector<comm::HostPeer>& all = leases_ ? leases_->lessors() : areas_;
  const auto own = static_cast<std::size_t>(roster_.self.value);
  if (all.empty() || !all[own].room) return {};
  std::vector<comm::HostPeer> lessors;
  for (const Rank rank : ranks) {
    const auto r = static_cast<std::size_t>(rank.value);
    const bool is_there = roster_.members[r] != ft::kNobody;
    const bool lends =
        r < all.size() && all[r].segment && comm::AreaRoom::has_room(*all[r].segment);
    if (is_there && !lends) return {};
    lessors.push_back(lends ? all[r] : comm::HostPeer{});
    lessors.back().offset = 0;
  }
  return lessors;
}

std::vector<comm::HostPeer> ViewMemory::areas_present() const {
  std::vector<comm::HostPeer> areas;
  for (const Rank rank : roster_.present) {
    const auto r = static_cast<std::size_t>(rank.value);
    if (r < areas_.size() && areas_[r].segment) areas.push_back(areas_[r]);
  }
  return areas;
}

void ViewMemory::unlink_own() {
  const auto own = static_cast<std::size_t>(roster_.self.value);
  if (leases_) return;
  if (own < areas_.size() && areas_[own].segment) areas_[own].segment->unlink();
}

}  // namespace holdfast::group
