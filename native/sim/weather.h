// Weather: what holds up, loses, doubles or damages the frames of a simulated network while faults
// last. All numbers of processes are ranks.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/random.h"
#include "sim/scenario.h"

namespace holdfast::sim {

class Weather {
 public:
  // A fault of the network begins.
  void begin(const Fault& fault, Instant now);
  // When a frame that is sent now arrives.
  Instant arrival(Instant now, int from, int to, Random& random) const;
  // How late the next data on this way is; once per fault.
  Duration lateness(int from, int to);
  // Whether the next frame on this way is to be damaged; once per fault.
  bool damages(int from, int to) { return damaged_.erase({from, to}) > 0; }
  // How many times a message of membership arrives.
  int copies(Instant now, int from, Random& random) const;

 private:
  // Holds up what `from` sends to `to`, or what crosses the border of `mask`.
  struct Barrier {
    Instant until;
    std::uint64_t mask = 0;
    int from = -1;
    int to = -1;
  };

  std::vector<Barrier> barriers_;
  std::map<std::pair<int, int>, std::pair<Duration, Instant>> slow_;  // by how much, until when
  std::map<std::pair<int, int>, Duration> late_;
  std::set<std::pair<int, int>> damaged_;
  std::map<int, Instant> drops_;  // until
  std::map<int, Instant> duplicates_;
};

}  // namespace holdfast::sim
