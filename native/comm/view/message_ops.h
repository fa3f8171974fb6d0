// Message ops: the sends and receives of a group. Each concerns two ranks, so a change of view
// touches only those with a member that was lost: the others go on through it. Names of messages
// carry the view in which the later of the two ranks joined.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0013-receiving-from-any-source.md
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/call/op_work.h"
#include "comm/engine/buffer_pool.h"
#include "comm/engine/run.h"

namespace holdfast::comm {

class MessageOps {
 public:
  // The op whose failure ends the group, and how it failed.
  struct Failure {
    std::shared_ptr<OpWork> work;
    Status status;  // its ranks: those that the op waited for
  };
  struct EndedMessage {
    std::shared_ptr<OpWork> work;
    Status status;
  };

  MessageOps(CommId group, Rank rank, int size);
  ~MessageOps();
  MessageOps(const MessageOps&) = delete;
  MessageOps& operator=(const MessageOps&) = delete;

  // Gives a vacant rank its member, or none; `since`: the rank's first view with this member.
  void seat(Rank rank, Link* link, Epoch since);
  void resize(int size);
  // The rank's member, which has just been seated without a link, will have one: link() follows.
  void await_link(Rank rank);
  void link(Rank rank, Link* link);
  // A new connection to the rank replaced a broken one. Messages that neither end has ended begin
  // again. Returns notices for the other end of messages that left here and may not have arrived,
  // in parts no longer than a frame.
  std::vector<std::vector<std::byte>> relink(Rank rank, Link* link);
  // Takes the notices of the other end: receives of messages that were lost fail.
  Status hear_sent(Rank from, std::span<const std::byte> said);
  void launch(std::shared_ptr<OpWork> work, Instant deadline);
  bool progress(Instant now);
  bool busy() const { return !active_.empty(); }
  // The oldest of the ops under way, and the ranks that it waits for.
  const OpWork* oldest() const { return active_.empty() ? nullptr : active_.front().work.get(); }
  std::vector<Rank> oldest_waits_for() const {
    return active_.empty() ? std::vector<Rank>{} : waited_for(active_.front());
  }
  bool moves_bulk() const;
  Instant next_deadline() const {
    return active_.empty() ? Instant{Duration::max()} : next_deadline_;
  }
  // The member has gone; messages that wait for it fail. `died`: so do receives from any source.
  void on_gone(Rank rank, bool died, const Status& why);
  // Takes the ops that have ended into `into`, which is empty; its memory is reused. A failure that
  // is not a loss ends the group.
  void take_ended(std::vector<EndedMessage>& into) { ended_.swap(into); }
  std::optional<Failure> take_failure() { return std::exchange(failure_, {}); }
  // Fails all ops.
  void fail_all(const Status& status);

 private:
  struct ActiveMessage {
    std::shared_ptr<OpWork> work;
    std::unique_ptr<Run> run;  // nothing: a receive that is not bound to its source yet
    Instant deadline;
    Rank peer{};
    bool unbound = false;       // no run yet: the op has no source, or no connection
    std::uint32_t ordinal = 0;  // of the run
  };
  // Messages that a rank had sent with a tag when its connection was made anew: those below
  // `until`, except those in `again`, which it sends again.
  struct Resumed {
    std::uint32_t until = 0;
    std::set<std::uint32_t> again;
  };

  int size() const { return static_cast<int>(links_.size()); }
  void make(ActiveMessage& active, std::uint32_t ordinal);
  void clear(Rank rank);
  bool is_broken(Rank rank) const;
  bool is_lost(Rank peer, std::uint32_t tag, std::uint32_t ordinal) const;
  MessageKey key(Rank peer, std::uint32_t tag) const;
  std::uint32_t& next_message(Collective collective, Rank peer, std::uint32_t tag) {
    return messages_[{collective, peer.value, tag}];
  }
  std::optional<Rank> find_message(std::uint32_t tag);
  bool bind_receives();
  bool check_gone();
  void end(std::size_t index, Status status);
  std::vector<Rank> waited_for(const ActiveMessage& active) const;
  void check_deadlines(Instant now);
  bool awaits_link(Rank rank) const {
    return rank != kAnySource && awaits_link_[static_cast<std::size_t>(rank.value)];
  }
  bool is_gone(Rank rank) const { return !gone_[static_cast<std::size_t>(rank.value)].is_ok(); }

  CommId id_;
  Rank rank_;
  std::vector<Link*> links_;       // by rank
  std::vector<Epoch> since_;       // by rank
  std::vector<bool> awaits_link_;  // by rank
  std::vector<Status> gone_;       // by rank; ok while present
  Recycler recycler_;              // of the runs
  LoweringSpace space_;
  FusedSchedule send_;  // send_, recv_: with the peer of the message at hand
  FusedSchedule recv_;
  std::vector<ActiveMessage> active_;
  std::map<std::tuple<Collective, int, std::uint32_t>, std::uint32_t> messages_;
  std::map<std::pair<int, std::uint32_t>, Resumed> resumed_;  // by rank and tag
  BufferPool pool_;
  int first_asked_ = 0;
  bool any_gone_ = false;
  bool any_died_ = false;
  Instant next_deadline_{Duration::max()};
  std::vector<EndedMessage> ended_;
  std::optional<Failure> failure_;
};

}  // namespace holdfast::comm
