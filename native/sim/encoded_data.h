// Encoded data: one simulated rank's memory for an op with a codec, and what is right to find
// there: for every element, what was sent and the residual are together what was put in. With a
// lossless codec there is no residual.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace holdfast::sim {

struct EncodedOp {
  comm::Collective collective{};
  int root = 0;
  std::uint64_t count = 0;  // elements of a block
  bool atomic = false;
  std::uint64_t factor = 1;
  bool residual = true;   // error feedback; without it, ranks of a host sum up first
  bool lossless = false;  // then there is no residual, and results are exact
};

class EncodedData {
 public:
  EncodedData(const EncodedOp& op, int rank, int ranks);

  static bool takes(comm::Collective collective, int ranks);
  comm::OpRequest request();
  // Empty, or what is wrong with result or residual.
  std::string check(const comm::Outcome& outcome) const;
  // The same after an op that failed, which must not have committed a residual.
  std::string check_failed() const;
  // Empty, or what an op under way has changed though it must not.
  std::string check_input() const;
  std::uint64_t fingerprint() const;

 private:
  bool is_in_place() const {
    return op_.collective == comm::Collective::kAllReduce && op_.factor % 2 == 0;
  }
  float put_in(int from, int to) const;
  float residual_of(int from, int to) const;
  std::string check_element(std::uint64_t block, std::uint64_t i,
                            const comm::Outcome& outcome) const;
  bool is_as_before(std::uint64_t k) const;
  std::string check_residual(std::uint64_t block, std::uint64_t i) const;

  EncodedOp op_;
  int rank_;
  int ranks_;
  std::vector<float> input_;
  std::vector<float> before_;  // the input as it was
  std::vector<float> output_;
  std::vector<float> residual_;
  std::vector<float> residual_before_;  // the residual as it was
};

}  // namespace holdfast::sim
