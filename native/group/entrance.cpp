// How a group's view begins its ops: at once, or, where somebody has come in, when the members have
// agreed what memory they share (group_sharing.h).
#include <algorithm>

#include "group/group.h"
#include "group/world.h"

namespace holdfast::ft {

bool Group::refers_to(MemberId member) const {
  if (has_member(member)) return true;
  if (!entrance_) return false;
  // The last view's exchange may have results, and the areas and bells of those that it had.
  const std::vector<MemberId>& before = entrance_->members_before;
  return std::find(before.begin(), before.end(), member) != before.end();
}

// What the last view had agreed on holds for those of it that are left: by all members' word, so
// that all decide alike. Else they agree anew, if their cards say that they may share memory.
void Group::agree_on_memory(bool may_share, const GroupReports& reports) {
  if (epoch_ == config_.epoch && !config_.newcomer) {
    const auto self = std::find(present_.begin(), present_.end(), config_.rank);
    shared_ = what_is_shared(areas_present(), {static_cast<std::int32_t>(self - present_.begin())});
    return;
  }
  SharedMemory least = SharedMemory::kReach;
  for (const Rank rank : present_) {
    const MemberId member = config_.members[static_cast<std::size_t>(rank.value)];
    const auto said = std::find_if(reports.begin(), reports.end(),
                                   [&](const auto& report) { return report.first == member; });
    least = std::min(least, said == reports.end() ? SharedMemory::kUnknown : said->second->shared);
  }
  shared_ = least;
  if (shared_ != SharedMemory::kUnknown) return;
  areas_.clear();
  if (present_.size() < 2 || !may_share) {
    shared_ = SharedMemory::kNone;
    return;
  }
  std::vector<MemberId> members;
  for (const Rank rank : present_) {
    members.push_back(config_.members[static_cast<std::size_t>(rank.value)]);
  }
  sharing_.begin(epoch_, std::move(members));
}

// Of those who are there; a group may begin with vacant places.
std::vector<comm::HostPeer> Group::areas_present() const {
  std::vector<comm::HostPeer> areas;
  for (const Rank rank : present_) {
    const auto r = static_cast<std::size_t>(rank.value);
    if (r < areas_.size() && areas_[r].segment) areas.push_back(areas_[r]);
  }
  return areas;
}

void Group::on_area(MemberId from, Epoch epoch, std::span<const std::byte> payload) {
  if (health().is_ok()) sharing_.hear(from, epoch, payload);
}

// The communicator of a view that has begun, which does not wait any longer for what its members
// share: they are told something, or the view ends. Nothing: the group is stopped.
comm::ViewCommunicator* Group::entered() {
  if (entrance_) enter_view();
  return comm_.get();
}

void Group::look_at_entrance(Instant now) {
  if (const auto agreed = sharing_.agreed()) {
    shared_ = *agreed;
    std::vector<comm::HostPeer> areas = sharing_.take_areas();
    if (!areas.empty()) areas_.resize(config_.members.size());
    for (std::size_t i = 0; i < areas.size(); ++i) {
      areas_[static_cast<std::size_t>(present_[i].value)] = std::move(areas[i]);
    }
    return enter_view();
  }
  const std::vector<MemberId> awaited = sharing_.awaited();
  // Who has left says no more; an op that is late tells the others so. Without memory, both.
  const bool in_vain = std::any_of(awaited.begin(), awaited.end(),
                                   [this](MemberId member) { return has_gone(member); });
  const bool late = std::any_of(ops_.begin(), ops_.end(),
                                [now](const auto& op) { return now >= op.second.deadline; });
  if (in_vain || late) enter_view();
}

void Group::make_communicator() {
  comm::CommunicatorConfig config;
  for (const Rank rank : present_) {
    const MemberId member = config_.members[static_cast<std::size_t>(rank.value)];
    config.view.members.push_back(member);
    config.links.push_back(rank == config_.rank ? comm::MemberLinks{} : world_->links_to(member));
  }
  const std::vector<comm::HostPeer> areas = areas_present();
  config.id = config_.id;
  config.view.epoch = epoch_;
  config.ranks = present_;
  config.group_size = static_cast<int>(config_.members.size());
  const auto self = std::find(present_.begin(), present_.end(), config_.rank);
  config.rank = {static_cast<std::int32_t>(self - present_.begin())};
  config.name = config_.name;
  const bool shares_memory = shares_memory_.load(std::memory_order_relaxed);
  config.fabric = topology::Fabric::of_hosts(world_->hosts(world_ranks_present()),
                                             shares_memory ? config_.shm_link : config_.tcp_link)
                      .value();
  config.protect = config_.protect;
  if (!areas.empty() && areas.size() == present_.size()) {
    config.flat.emplace(config.rank, epoch_, areas);
    for (const auto lane : {comm::SliceLane::kBulk, comm::SliceLane::kSmall}) {
      config.slices.emplace_back(config.rank, epoch_, areas, config_.slice_bytes, lane);
    }
  }
  comm_ = std::make_unique<comm::ViewCommunicator>(std::move(config), *this, clock_);
  observe_view();
  // The view may have lost more members since it was decided.
  for (const auto& [member, why] : gone_) {
    if (const auto rank = view_rank_of(member, epoch_)) comm_->on_gone(*rank, why);
  }
}

void Group::enter_view() {
  const Entrance entrance = *std::exchange(entrance_, std::nullopt);
  sharing_.stop();
  make_communicator();
  if (entrance.settles) {
    settle(entrance.reports, entrance.ranks_before, entrance.members_before);
  } else {
    begin_ops();
  }
  if (previous_) previous_->abandon();
  previous_.reset();
}

void Group::begin_ops() {
  for (auto at = ops_.begin(); at != ops_.end();) begin((at++)->second);
}

}  // namespace holdfast::ft
