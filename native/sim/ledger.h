// Ledger: what every simulated process saw, and whether it fits together: the guarantees G1 to G6,
// each a small check.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/fnv.h"
#include "comm/communicator.h"
#include "sim/program.h"

namespace holdfast::sim {

class Ledger {
 public:
  // An op of the program has ended at a process: number of the op, how, and with what.
  void on_ended(int process, int op, const OpData& data, const Status& status,
                const comm::Outcome& outcome);
  // A process lives in this view.
  void on_view(int process, const comm::View& view);
  void on_wrong(int process, const std::string& what);

  // Judges what can only be told at the end: `survivors` saw it out.
  void compare(const std::vector<int>& survivors);

  bool ok() const { return violation_.empty(); }
  const std::string& violation() const { return violation_; }
  std::uint64_t ops() const { return ops_; }
  std::uint64_t hash() const { return hash_.value(); }

 private:
  struct Ended {
    std::uint32_t code = 0;
    std::uint64_t fingerprint = 0;
    bool replicated = false;
    comm::Outcome outcome;
    std::vector<Rank> lost;  // whom PeerLost names
  };

  void mix(std::uint64_t value) { hash_.mix(value); }

  std::map<int, std::map<int, Ended>> ended_;                            // by op, by process
  std::map<std::uint32_t, std::map<int, std::vector<MemberId>>> views_;  // by epoch, by process
  std::map<int, Epoch> epochs_;                                          // by process: the last
  std::string violation_;
  std::uint64_t ops_ = 0;
  Fnv1a hash_;
};

}  // namespace holdfast::sim
