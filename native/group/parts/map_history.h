// Map history: the maps of links by which a group's ops go, each from an op on that is the same on
// all members. A loss may run ops anew that were called before the latest map was taken, so a map
// stays as long as ops of its time are under way.
//
// Thread: only the holder of the runtime.
#pragma once

#include <utility>
#include <vector>

#include "base/planted.h"
#include "comm/communicator.h"

namespace holdfast::group {

class MapHistory {
 public:
  struct MapFrom {
    OpSeq from;
    comm::TakenMap taken;
  };

  explicit MapHistory(comm::TakenMap first) { all_.push_back({OpSeq{}, std::move(first)}); }

  // `oldest`: no op below it is under way, here or elsewhere.
  void take(OpSeq from, comm::TakenMap taken, OpSeq oldest) {
    while (all_.size() > 1 && all_[1].from <= oldest) all_.erase(all_.begin());
    if (is_planted(Planted::kForgetMap)) all_.clear();
    all_.push_back({from, std::move(taken)});
  }
  // By rising number, one at least.
  const std::vector<MapFrom>& all() const { return all_; }
  const comm::TakenMap& latest() const { return all_.back().taken; }

 private:
  std::vector<MapFrom> all_;
};

}  // namespace holdfast::group
