// World: one process's part in a job: its membership, and the groups, whose views are projections
// of the world's views. Carries out what the membership decides: stops the groups, sends their
// reports, gives them the next view.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0024-all-groups-stop.md
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport/null_link.h"
#include "comm/view/communicator_config.h"
#include "ft/membership.h"
#include "group/group.h"
#include "group/group_list.h"
#include "group/host_numbers.h"
#include "group/network.h"
#include "group/view_news.h"

namespace holdfast::group {

class World {
 public:
  // `network` outlives the world.
  World(CommId id, ft::Membership membership, Network& network);
  // A world that exists already, as `decision` told its newcomer.
  World(const ft::Message& decision, ft::Membership membership, Network& network);

  CommId id() const { return id_; }
  const ft::WorldView& view() const { return membership_.view(); }
  ft::Membership& membership() { return membership_; }
  const ft::Membership& membership() const { return membership_; }
  Network& network() { return network_; }
  // `member` is in the view. Empty: the world is sparse, and the two have not been connected yet.
  comm::MemberLinks links_to(MemberId member);
  // An op or a message needs a connection to the member: on_linked() follows, unless it has gone.
  void reach(MemberId member);
  // The hosts of these ranks of the view, numbered in order of appearance; vacant ranks count as
  // one.
  std::vector<int> hosts(const std::vector<Rank>& world_ranks) const;
  // Whether the rank is vacant, and was not when somebody was seated last; for ranks of the view.
  bool was_vacated(Rank rank) const {
    const auto r = static_cast<std::size_t>(rank.value);
    return view().members[r] == ft::kNobody && !view().cards[r].empty();
  }
  // As number_domains(), of these ranks of the view.
  std::vector<std::vector<int>> domains(const std::vector<Rank>& world_ranks) const {
    return number_domains(words_.of(view(), network_), world_ranks);
  }
  // This process's part in a group called `base.name` that the world had before this process was
  // admitted. `base` has what the other members do not decide, and may have the group's world
  // ranks. Nothing: no such group had this rank in it, or this process has its part already.
  std::optional<GroupConfig> admitted(GroupConfig base) const;
  // This process's part in the group of all ranks of an elastic world, under the world's own id.
  std::optional<GroupConfig> elastic(GroupConfig base) const;
  // The latest map of links that the group of all ranks has taken; new groups begin by it.
  const comm::TakenMap& map() const { return map_; }
  void set_map(comm::TakenMap map) { map_ = std::move(map); }
  // Whether links of the member may still be in use.
  bool refers_to(MemberId member) const;
  std::optional<Rank> rank_of(MemberId member) const;
  // One of the last views; nothing: its epoch has not come yet, or is long past.
  const ft::WorldView* view_at(Epoch epoch) const;
  bool has_all(const std::vector<MemberId>& members) const;

  // Adds a group whose first view is that of the world's epoch `config().epoch`, which may be past,
  // or yet to come.
  void add(const std::shared_ptr<Group>& group, Instant now);
  std::vector<std::shared_ptr<Group>> groups() const { return groups_.all(); }
  std::shared_ptr<Group> find_group(CommId id) const { return groups_.find(id); }
  // Counts the derived groups that exist here. Any thread.
  void note_derived(bool is_new) {
    // relaxed: a limit, which guards nothing
    derived_.fetch_add(is_new ? 1 : std::size_t{0} - 1, std::memory_order_relaxed);
  }
  std::size_t derived() const { return derived_.load(std::memory_order_relaxed); }
  // The group is given turns until it needs none.
  void wake(Group& group) { groups_.wake(group); }
  // This process has left the derived group, and the other members may still need it.
  void linger(std::shared_ptr<Group> group, Instant now);
  // Whether derived groups linger. Any thread.
  bool has_lingering() const { return groups_.has_lingering(); }
  // This process leaves the world when none linger: they are looked at often.
  void await_lingering() { awaits_lingering_ = true; }
  void drop_lingering() { groups_.drop_lingering(); }

  bool progress(Instant now);
  // Groups have ops under way, or a view change is.
  bool busy() const;
  bool awaits_mail() const;
  bool is_changing() const {
    return membership_.changing() || boundary_.has_value() || !actions_.empty() || entering_;
  }
  comm::MemoryPoll poll_memory();
  bool moves_bulk() const;
  Instant next_deadline() const;

  void on_message(MemberId from, const ft::Message& message, Instant now);
  // The member's process has gone.
  void on_closed(MemberId member, const Status& why, Instant now);
  // Nothing comes from the member any more; it may live.
  void on_silent(MemberId member, Instant now);
  void on_heard(MemberId member, Instant now);
  // A new connection replaced a broken one; `data_lost`: data under way was lost.
  void on_relinked(MemberId member, bool data_lost, Instant now);
  // The first connection to a member of a sparse world: nothing was lost.
  void on_linked(MemberId member);
  void on_connected(MemberId peer, Instant now);
  // Ends this process's part.
  void leave(Instant now);
  // This process's part has ended, though groups that were made of the world may go on.
  bool has_ended() const { return ended_; }
  // Ranks of the world whose last member was voted out and may still act in an older view.
  std::vector<Rank> ranks_at_large() const;
  // This process leaves when no ranks are at large, or when it has waited for them in vain.
  void await_outcasts(Instant now);
  // This process stays only for the ranks at large.
  void retire();
  void give_up_outcasts() { given_up_ = membership_.at_large(); }
  bool has_given_up() const { return given_up_ == membership_.at_large(); }
  // The member said goodbye to a group of this world.
  void on_goodbye(MemberId member, CommId group, Instant now);

  // This member is at a step boundary; `then` runs when the next view has begun, or when there will
  // be none. One at a time.
  void at_boundary(std::function<void(const Status&)> then);
  bool in_boundary() const { return boundary_.has_value(); }

 private:
  struct Past {
    ft::WorldView view;
    WorldReports reports;
    bool boundary = false;
    std::map<CommId, GroupReports> by_group;  // what is in `reports`
  };
  struct WorldBoundary {
    std::function<void(const Status&)> then;
    bool sent = false;
  };

  void look_at_boundary(Instant now);
  void carry_out(Instant now);
  void carry_out(const ft::Action& action, Instant now);
  bool can_adopt(const ft::WorldView& view, Instant now);
  ft::Body stop_groups();
  void adopt(const ft::Adopt& adopt, Instant now);
  void look_at_contacts(Instant now);
  void give_view(Group& group, const Past& past);
  void reap(Instant now);
  void end_boundary(const Status& status);

  CommId id_;
  MemberId self_;
  Network& network_;
  ft::Membership membership_;
  GroupList groups_;
  std::atomic<std::size_t> derived_{0};
  comm::TakenMap map_;
  mutable CardWords words_;   // read once for each view
  std::set<CommId> entered_;  // ids of all groups that ever had a part here, but for derived ones
  std::deque<Past>
      past_;  // the last views, the current one included, for groups that are added late
  std::optional<WorldBoundary> boundary_;
  std::deque<ft::Action> actions_;
  ViewNews news_;
  std::vector<ft::Outcast> given_up_;  // at large when an earlier close() waited for them in vain
  comm::NullLink nowhere_;
  bool carrying_out_ = false;
  bool entering_ = false;  // a group is entering (Group::is_entering)
  bool has_groups_ = false;
  bool ended_ = false;  // this process has left
  bool awaits_lingering_ = false;
  Instant next_reap_{};
  Instant turned_{};
};

}  // namespace holdfast::group
