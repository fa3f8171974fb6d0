// View news: what a world tells people and the observer about its views. News of a view that lost
// members waits until it is known why each of them is out: others may know of a death, or of a
// goodbye, before this process's own connection says so. It decides nothing.
//
// Thread: only the holder of the runtime.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "comm/observer.h"
#include "ft/message.h"

namespace holdfast::group {

class Network;

class ViewNews {
 public:
  // `network` outlives it.
  explicit ViewNews(Network& network) : network_(network) {}

  // The groups have been stopped for the next view.
  void on_stopped(Instant now);
  // A view has followed another one; `self`: this process's rank in it, -1: none; `at_boundary`:
  // who is out was to leave at the step boundary with which it begins.
  struct NewsOfView {
    const ft::WorldView& before;
    const ft::WorldView& after;
    Rank self;
    bool at_boundary = false;
  };
  void on_view(const NewsOfView& view, Instant now);
  // The member said goodbye, or was found to have; `in_view`: it is in the view.
  void on_goodbye(MemberId member, bool in_view);
  // Tells what is known by now.
  void progress(Instant now);
  // When to stop waiting for what is still unknown.
  Instant next_deadline() const;
  // This process leaves before all is known.
  void end(Instant now);
  void stands(comm::Standing standing);

 private:
  // What a view has changed.
  struct ViewChanged {
    struct Out {
      std::size_t rank;
      MemberId member;
      std::optional<comm::LossCause> cause;
    };
    Epoch epoch;
    std::size_t present;
    std::size_t size;
    std::vector<std::size_t> joined;
    std::vector<Out> out;
    Instant until;  // what is still unknown then stays unknown
  };

  void tell(const ViewChanged& change);
  std::optional<comm::LossCause> cause_of(MemberId lost) const;
  void explain(ViewChanged::Out& out, comm::LossCause cause);

  Network& network_;
  std::vector<MemberId> goodbyes_;        // members of the view that said goodbye
  std::deque<ViewChanged> untold_;        // changes of which not all is known yet, the oldest first
  std::optional<Instant> stopped_since_;  // by a loss
};

}  // namespace holdfast::group
