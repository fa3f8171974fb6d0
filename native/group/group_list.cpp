#include "group/group_list.h"

#include <algorithm>

#include "group/group.h"

namespace holdfast::group {
namespace {

// Lingering groups looked at in a turn that others still need: members end groups in about the same
// order, so that those in front are the next to go. And those that go in a turn.
constexpr std::size_t kLooksPerTurn = 4;
constexpr std::size_t kReapsPerTurn = 256;

// A list of more groups that get turns may have some that need none.
constexpr std::size_t kFewAwake = 16;

}  // namespace

void GroupList::add(const std::shared_ptr<Group>& group) {
  // Turns are rare where ops are short.
  if (awake_.size() > kFewAwake) let_sleep();
  groups_.push_back(group);
  by_id_[group->id()] = group;
  if (!group->is_dormant()) wake(*group);
}

void GroupList::forget_expired() {
  std::erase_if(groups_, [](const auto& weak) { return weak.expired(); });
  std::erase_if(by_id_, [](const auto& entry) { return entry.second.expired(); });
  groups_.shrink_to_fit();
}

std::shared_ptr<Group> GroupList::find(CommId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.lock();
}

std::vector<std::shared_ptr<Group>> GroupList::all() const {
  std::vector<std::shared_ptr<Group>> result;
  for (const auto& weak : groups_) {
    if (auto group = weak.lock()) result.push_back(std::move(group));
  }
  return result;
}

std::size_t GroupList::count() const {
  const auto is_there = [](const auto& weak) {
    const auto group = weak.lock();
    return group && !group->is_lingering();
  };
  return static_cast<std::size_t>(std::count_if(groups_.begin(), groups_.end(), is_there));
}

void GroupList::wake(Group& group) {
  if (group.set_awake(true)) awake_.push_back(group.weak_from_this());
}

void GroupList::let_sleep() {
  std::erase_if(awake_, [](const auto& weak) {
    const auto group = weak.lock();
    if (!group) return true;
    if (group->needs_turns()) return false;
    group->set_awake(false);
    return true;
  });
}

void GroupList::linger(std::shared_ptr<Group> group) {
  group->set_lingering();
  lingering_.push_back(std::move(group));
  lingering_count_.store(lingering_.size(), std::memory_order_release);
}

void GroupList::reap(const std::function<bool(MemberId)>& acts) {
  std::size_t needed = 0;
  for (std::size_t i = std::min(kReapsPerTurn, lingering_.size()); i > 0; --i) {
    std::shared_ptr<Group> group = std::move(lingering_.front());
    lingering_.pop_front();
    if (group->has_been_let_go(acts)) {
      group->drop(true);
      continue;
    }
    lingering_.push_back(std::move(group));
    if (++needed == kLooksPerTurn) break;
  }
  lingering_count_.store(lingering_.size(), std::memory_order_release);
}

void GroupList::drop_lingering() {
  for (const auto& group : std::exchange(lingering_, {})) group->drop(false);
  lingering_count_.store(0, std::memory_order_release);
}

}  // namespace holdfast::group
