// Float data: one simulated rank's memory for a sum of floats. The order of the addends shows in
// the last bits of the sum, so equal bits on all members prove that all added in the same order
// (G7). Where the order of ranks is asked for, the sum is known to its last bit. Some sums are
// averages by weights, which must be of the ranks that are in the part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace holdfast::sim {

struct FloatOp {
  comm::Collective collective{};
  int root = 0;
  std::uint64_t count = 0;  // elements of a block
  bool in_place = false;
  bool atomic = false;
  std::uint64_t factor = 1;
  bool ordered = false;   // asks for the order of ranks
  bool by_user = false;   // ordered: by an operator of the caller's that adds floats
  bool weighted = false;  // in place of the sum: the average by weights
};

class FloatData {
 public:
  FloatData(const FloatOp& op, int rank, int ranks);

  static bool takes(comm::Collective collective);
  comm::OpRequest request();
  // Empty, or what is wrong with the result.
  std::string check(const comm::Outcome& outcome) const;
  // Empty, or what is in the caller's memory though it is neither its input nor a result: a result
  // has at least the ranks of `all` in it.
  std::string check_input(const std::vector<Rank>& all);
  void write_over();
  // A hash of the result's bits.
  std::uint64_t bits() const;
  bool is_replicated() const { return comm::is_replicated(op_.collective); }

 private:
  float share(int rank, std::uint64_t element) const;
  double weight(int rank) const;
  bool is_sum_of(float value, std::uint64_t element, const std::vector<int>& ranks) const;
  bool is_sum(float value, std::uint64_t element, const comm::Outcome& outcome) const;

  FloatOp op_;
  int rank_;
  int ranks_;
  std::vector<float> input_;
  std::vector<float> before_;  // the input as it was
  std::vector<float> right_;   // the input as it was when last found right
  std::vector<float> output_;
};

}  // namespace holdfast::sim
