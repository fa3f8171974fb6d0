#include "group/parts/caller_state.h"

#include <algorithm>

#include "ft/message.h"
#include "group/parts/step_boundary.h"

namespace holdfast::group {

int CallerState::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(view_.members.size());
}

comm::View CallerState::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

std::vector<Rank> CallerState::live_ranks() const {
  const std::lock_guard lock(mutex_);
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < view_.members.size(); ++r) {
    if (view_.members[r] != ft::kNobody) ranks.push_back({static_cast<std::int32_t>(r)});
  }
  return ranks;
}

comm::Placement CallerState::placement() const {
  const std::lock_guard lock(mutex_);
  return placement_;
}

std::vector<int> CallerState::hosts() const {
  const std::lock_guard lock(mutex_);
  return hosts_;
}

Epoch CallerState::boundary() const {
  const std::lock_guard lock(mutex_);
  return boundary_;
}

Status CallerState::health() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool CallerState::is_newcomer() const {
  const std::lock_guard lock(mutex_);
  return at_entrance_;
}

bool CallerState::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

Status CallerState::refusal(const comm::OpRequest& request, const std::string& name) const {
  if (closed_) return {Code::kNotMember, "group " + name + " is closed"};
  return {Code::kConfigError, "group " + name + ": " +
                                  std::string(comm::collective_name(request.collective)) +
                                  " while advance() is under way; wait for it first"};
}

bool CallerState::close() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(closed_, true);
}

void CallerState::end_boundary() {
  const std::lock_guard lock(mutex_);
  advancing_ = false;
}

bool CallerState::end(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (!ended_.is_ok()) return false;
  ended_ = status;
  return true;
}

void CallerState::set_view(comm::View view) {
  const std::lock_guard lock(mutex_);
  view_ = std::move(view);
}

void CallerState::set_placement(std::vector<int> hosts, int host_count, bool shares_memory,
                                Epoch epoch) {
  const std::lock_guard lock(mutex_);
  hosts_ = std::move(hosts);
  placement_ = {static_cast<int>(view_.members.size()), host_count, shares_memory};
  boundary_ = epoch;
}

void CallerState::keep_placement_of(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return;
  const std::lock_guard lock(mutex_);
  HostNumbers kept = keep_hosts_of(ranks, hosts_);
  hosts_ = std::move(kept.by_rank);
  placement_.hosts = std::max(1, kept.count);
}

comm::TakenMap CallerState::map() const {
  const std::lock_guard lock(mutex_);
  return map_;
}

void CallerState::meet_at(std::uint64_t next_sequence) {
  const std::lock_guard lock(mutex_);
  next_sequence_ = std::max(next_sequence_, next_sequence);
}

}  // namespace holdfast::group
