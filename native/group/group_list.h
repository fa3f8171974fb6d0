// Group list: the groups of a world. Of many groups few are in use at a time: only those that ask
// for turns get any, so that the others cost an op nothing. A derived group that this process has
// left lingers until the other members have ended its ops, too: it serves them what they lack, and
// nobody waits for that.
//
// Thread: only the holder of the runtime, but for has_lingering().
// Why: docs/decisions/0138-groups-without-a-meeting.md
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/types.h"

namespace holdfast::group {

class Group;

class GroupList {
 public:
  void add(const std::shared_ptr<Group>& group);
  // Null: there is none, or nobody has it any more.
  std::shared_ptr<Group> find(CommId id) const;
  std::vector<std::shared_ptr<Group>> all() const;
  // Those that have not been left.
  std::size_t count() const;

  // The group gets turns until it needs none.
  void wake(Group& group);
  // Gives every group that is awake to `visit`, which may wake others. Returns whether some have
  // gone since.
  template <class Visit>
  bool each_awake(Visit visit) const {
    bool gone = false;
    // By index, without a copy: the list may grow meanwhile.
    for (std::size_t i = 0; i < awake_.size(); ++i) {
      if (const auto group = awake_[i].lock()) {
        visit(*group);
      } else {
        gone = true;
      }
    }
    return gone;
  }
  // Forgets groups that have gone, where they are more than those that are there: `derived` and a
  // few.
  void forget_gone(std::size_t derived) {
    if (groups_.size() <= 2 * derived + others_ + kFewGroups) return;
    forget_expired();
    others_ = groups_.size() - std::min(groups_.size(), derived);
  }
  // Those that need no turns get none any more.
  void let_sleep();

  // Owners of the group: this list, and works that callers may keep.
  void linger(std::shared_ptr<Group> group);
  // Looks at some of the lingering groups, and lets those go that nobody needs any more.
  // `acts(member)`: whether the member may still do anything at all.
  void reap(const std::function<bool(MemberId)>& acts);
  // Lets all of them go: this process has left the world.
  void drop_lingering();
  bool has_lingering() const {
    return lingering_count_.load(std::memory_order_acquire) > 0;  // acquire: they have gone
  }

 private:
  static constexpr std::size_t kFewGroups = 64;
  void forget_expired();

  // Weak: a group belongs to its user and to its ops.
  std::vector<std::weak_ptr<Group>> groups_;
  std::map<CommId, std::weak_ptr<Group>> by_id_;
  std::size_t others_ = 0;  // groups that are not derived, when they were counted last
  std::vector<std::weak_ptr<Group>> awake_;
  std::deque<std::shared_ptr<Group>> lingering_;
  std::atomic<std::size_t> lingering_count_{0};
};

}  // namespace holdfast::group
