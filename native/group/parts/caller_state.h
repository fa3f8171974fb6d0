// Caller state: what the threads that call a group share with the one that drives it: the numbers
// of calls, whether the group takes calls, and what callers may read of its view. It runs no op.
//
// Thread: any.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/executor.h"

namespace holdfast::group {

class CallerState {
 public:
  // How an advance() begins.
  enum class Boundary : std::uint8_t {
    kClosed,    // the group takes no calls
    kTwice,     // another one is under way
    kEntrance,  // of a newcomer that came in at this boundary, or a founder of the group
    kVote,      // the members agree on it
  };

  // `newcomer`: it has called nothing yet but its late join.
  CallerState(comm::View view, std::uint64_t next_sequence, bool newcomer, comm::TakenMap map = {})
      : next_sequence_(next_sequence),
        at_entrance_(newcomer),
        map_(std::move(map)),
        view_(std::move(view)) {}

  int size() const;
  comm::View view() const;
  std::vector<Rank> live_ranks() const;
  comm::Placement placement() const;
  std::vector<int> hosts() const;
  Epoch boundary() const;
  // Not ok: why the group has ended.
  Status health() const;
  bool is_newcomer() const;
  bool is_closed() const;

  // Takes a call: `submit(number)` hands its op on, in the order of the numbers. Not ok: the call
  // is refused, with the reason, for the group called `name`.
  template <class Submit>
  Status call(const comm::OpRequest& request, const std::string& name, Submit submit) {
    const std::lock_guard lock(mutex_);
    if (closed_ || advancing_) return refusal(request, name);
    at_entrance_ = at_entrance_ && request.how.at_entrance;
    // Counted apart: a message concerns two ranks, and a collective's number must be the same on
    // all.
    const bool message = comm::is_point_to_point(request.collective);
    submit(OpSeq{message ? next_message_++ : next_sequence_++});
    return Status::ok();
  }
  // The number of a collective that begins at once; nothing: it has to take its turn, for the group
  // is in an unusual state, or a call of another thread has its number already.
  std::optional<OpSeq> call_inline(const comm::Executor& executor) {
    const std::lock_guard lock(mutex_);
    if (!ended_.is_ok() || closed_ || advancing_ || at_entrance_ || executor.has_tasks()) {
      return std::nullopt;
    }
    return OpSeq{next_sequence_++};
  }
  // Takes an advance(): `submit(how, number)` goes on with it, in the order of the numbers;
  // `number` is that of the vote.
  template <class Submit>
  void call_boundary(Submit submit) {
    const std::lock_guard lock(mutex_);
    const OpSeq next{next_sequence_};
    if (closed_ || advancing_) {
      return submit(closed_ ? Boundary::kClosed : Boundary::kTwice, next);
    }
    if (std::exchange(at_entrance_, false)) return submit(Boundary::kEntrance, next);
    advancing_ = true;
    ++next_sequence_;
    submit(Boundary::kVote, next);
  }
  // Takes a map of links: `submit(first, taken)` hands it on, in the order of the calls; `first` is
  // the number of the first collective that goes by it.
  template <class Submit>
  Status take_map(std::shared_ptr<const topology::LinkMap> map,
                  std::shared_ptr<const std::string> text, const std::string& name, Submit submit) {
    const std::lock_guard lock(mutex_);
    if (closed_ || advancing_) return {Code::kNotMember, "group " + name + " takes no calls now"};
    map_ = {std::move(map), std::move(text), map_.version + 1};
    submit(OpSeq{next_sequence_}, map_);
    return Status::ok();
  }
  comm::TakenMap map() const;
  // Closes the group to calls. Returns whether it took calls until now.
  bool close();

  // From here on: driving thread only.
  void end_boundary();
  // Returns whether the group had not ended before.
  bool end(const Status& status);
  void set_view(comm::View view);
  // For a step boundary, which begins the view of that epoch.
  void set_placement(std::vector<int> hosts, int host_count, bool shares_memory, Epoch epoch);
  // For a step boundary at which no rank came in: keeps the placement of those ranks alone.
  void keep_placement_of(const std::vector<Rank>& ranks);
  // The members' counts, which may differ where ops failed, become one.
  void meet_at(std::uint64_t next_sequence);

 private:
  Status refusal(const comm::OpRequest& request, const std::string& name) const;

  mutable std::mutex mutex_;         // guards all (and the order of submissions)
  std::uint64_t next_sequence_ = 0;  // of collectives
  std::uint64_t next_message_ = 0;   // of sends and receives
  bool advancing_ = false;
  bool at_entrance_ = false;  // a newcomer that has called nothing yet but its late join
  comm::TakenMap map_;
  Status ended_;
  bool closed_ = false;
  comm::View view_;
  comm::Placement placement_;
  std::vector<int> hosts_;  // by rank, with placement_
  Epoch boundary_;          // of the view that the last placement was set for
};

}  // namespace holdfast::group
