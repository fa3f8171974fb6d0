// Message ops: the sends and receives of a group. They concern two ranks each, so a change of view
// touches only those with a member that was lost: the others go on through it. Names of messages
// carry the view in which the later of the two joined.
//
// Thread: only the holder of the runtime.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "comm/engine/buffer_pool.h"
#include "comm/engine/run.h"
#include "comm/op_work.h"

namespace holdfast::comm {

class MessageOps {
 public:
  // How an op ended badly, and for whom that is the end.
  struct Failure {
    std::shared_ptr<OpWork> work;
    Status status;  // ranks: those it waited for
  };
  struct Ended {
    std::shared_ptr<OpWork> work;
    Status status;
  };

  MessageOps(CommId group, Rank rank, int size);
  ~MessageOps();
  MessageOps(const MessageOps&) = delete;
  MessageOps& operator=(const MessageOps&) = delete;

  // The member of a rank that was vacant, or nobody; `since`: its first view with this member.
  void seat(Rank rank, Link* link, Epoch since);
  void resize(int size);
  void launch(std::shared_ptr<OpWork> work, Instant deadline);
  bool progress(Instant now);
  bool busy() const { return !active_.empty(); }
  // The op that was begun first, of those under way, and whom it waits for.
  const OpWork* oldest() const { return active_.empty() ? nullptr : active_.front().work.get(); }
  std::vector<Rank> oldest_waits_for() const {
    return active_.empty() ? std::vector<Rank>{} : waited_for(active_.front());
  }
  bool moves_bulk() const;
  Instant next_deadline() const {
    return active_.empty() ? Instant{Duration::max()} : next_deadline_;
  }
  // The member has gone; messages that wait for it fail. `died`: so do receives from anybody.
  void on_gone(Rank rank, bool died, const Status& why);
  // Those that have ended; a failure that is not a loss ends the group.
  // `into`: empty; its memory is used.
  void take_ended(std::vector<Ended>& into) { ended_.swap(into); }
  std::optional<Failure> take_failure() { return std::exchange(failure_, {}); }
  // Fails all of them.
  void fail_all(const Status& status);

 private:
  struct Active {
    std::shared_ptr<OpWork> work;
    std::unique_ptr<Run> run;  // nothing: a receive that is not bound to its source yet
    Instant deadline;
    Rank peer{};
    bool unbound = false;
  };

  int size() const { return static_cast<int>(links_.size()); }
  std::unique_ptr<Run> make(const OpWork& work, Rank peer);
  MessageKey key(Rank peer, std::uint32_t tag) const;
  std::uint32_t& next_message(Collective collective, Rank peer, std::uint32_t tag) {
    return messages_[{collective, peer.value, tag}];
  }
  std::optional<Rank> find_message(std::uint32_t tag);
  bool bind_receives();
  bool check_gone();
  void end(std::size_t index, Status status);
  std::vector<Rank> waited_for(const Active& active) const;
  void check_deadlines(Instant now);
  bool is_gone(Rank rank) const { return !gone_[static_cast<std::size_t>(rank.value)].is_ok(); }

  CommId id_;
  Rank rank_;
  std::vector<Link*> links_;  // by rank
  std::vector<Epoch> since_;  // by rank
  std::vector<Status> gone_;  // by rank; ok while present
  Recycler recycler_;         // of the runs
  LoweringSpace space_;
  FusedSchedule send_;  // with the peer of the message at hand
  FusedSchedule recv_;
  std::vector<Active> active_;
  std::map<std::tuple<Collective, int, std::uint32_t>, std::uint32_t> messages_;
  BufferPool pool_;
  int first_asked_ = 0;
  bool any_gone_ = false;
  bool any_died_ = false;
  Instant next_deadline_{Duration::max()};
  std::vector<Ended> ended_;
  std::optional<Failure> failure_;
};

}  // namespace holdfast::comm
