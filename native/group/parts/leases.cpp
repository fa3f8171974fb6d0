#include "group/parts/leases.h"

#include <algorithm>

#include "ft/message.h"

namespace holdfast::group {

using comm::AreaRoom;
using LeaseState = comm::Lease::LeaseState;

namespace {

std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }

}  // namespace

Leases::Leases(CommId group, Rank self, std::vector<comm::HostPeer> lessors)
    : group_(group), self_(self), lessors_(std::move(lessors)), leases_(lessors_.size()) {}

void Leases::take() {
  if (own_ || lessors_.empty()) return;
  // derive() keeps the number of groups below that of leases.
  auto lease = own_lessor().room->take(group_);
  CHECK(lease.is_ok());
  own_ = lease.value();
  leases_[index(self_)] = *own_;
}

void Leases::take_early() {
  if (!lessors_.empty() && own_lessor().room->free() > comm::kRoomAreas / 2) take();
}

void Leases::look(const std::vector<Rank>& ranks) {
  for (const Rank rank : ranks) {
    comm::Lease& lease = leases_[index(rank)];
    if (lease.state == LeaseState::kAbsent && lessors_[index(rank)].segment) {
      lease = AreaRoom::find(*lessors_[index(rank)].segment, group_);
    }
  }
}

std::vector<Rank> Leases::awaited(const std::vector<Rank>& ranks) const {
  std::vector<Rank> awaited;
  for (const Rank rank : ranks) {
    if (leases_[index(rank)].state == LeaseState::kAbsent) awaited.push_back(rank);
  }
  return awaited;
}

std::optional<std::vector<comm::HostPeer>> Leases::areas(const std::vector<Rank>& ranks) const {
  std::vector<comm::HostPeer> areas(lessors_.size());
  for (const Rank rank : ranks) {
    const comm::Lease& lease = leases_[index(rank)];
    if (lease.state != LeaseState::kArea) return std::nullopt;
    areas[index(rank)] = lessors_[index(rank)];
    areas[index(rank)].offset = lease.offset;
  }
  return areas;
}

void Leases::end() {
  if (!own_ || ended_) return;
  ended_ = true;
  own_lessor().room->end(group_);
}

void Leases::note_seen() {
  if (own_ && !ended_) own_lessor().room->note_seen(group_);
}

bool Leases::try_end(const std::function<bool(MemberId)>& acts) {
  for (std::size_t r = 0; r < lessors_.size() && !ended_; ++r) {
    if (r == index(self_) || members_[r] == ft::kNobody || !lessors_[r].segment) continue;
    const comm::Lease lease = AreaRoom::find(*lessors_[r].segment, group_);
    if (lease.state != LeaseState::kAbsent && !lease.has_seen && acts(members_[r])) return false;
  }
  end();
  return true;
}

bool Leases::have_others_ended(const std::function<bool(MemberId)>& acts) const {
  for (std::size_t r = 0; r < lessors_.size(); ++r) {
    if (r == index(self_) || members_[r] == ft::kNobody || !lessors_[r].segment) continue;
    const bool holds = AreaRoom::find(*lessors_[r].segment, group_).state != LeaseState::kAbsent;
    if (holds && acts(members_[r])) return false;
  }
  return true;
}

void Leases::release() {
  end();
  if (own_) own_lessor().room->give_back(*std::exchange(own_, std::nullopt));
}

}  // namespace holdfast::group
