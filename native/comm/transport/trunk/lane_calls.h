// Lane calls: when a trunk's peer is called for further lanes, and for how many.
//
// It has no clock and no socket. Thread: only the holder of the runtime.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/types.h"

namespace holdfast::comm {

class TrunkLink;

// Between two calls of lanes to one peer, while none answers.
inline constexpr Duration kLanePause = std::chrono::milliseconds(250);
// Time limit of a call: its kernel repeats what is lost at the start only after a second, and a new
// call does so earlier.
inline constexpr Duration kLaneTime = std::chrono::seconds(1);

// Who calls.
struct LaneCaller {
  bool is_caller = false;  // this side called first
  bool relayed = false;    // all lanes go through a relay
  std::size_t called = 0;  // calls for lanes that have not been answered
};

// How many more calls to make now.
std::size_t lanes_to_call(const TrunkLink& trunk, const LaneCaller& caller);

}  // namespace holdfast::comm
