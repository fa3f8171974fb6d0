// Program: what the simulated ranks run: the same ops in the same order on all of them, made from
// the seed, with data that shows for every element which ranks are in it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "sim/encoded_data.h"
#include "sim/float_data.h"
#include "sim/scenario.h"

namespace holdfast::sim {

// Ops are numbered; those of one step follow each other.
inline constexpr int kOpsPerStep = 10;

// The group that an op belongs to.
enum class ProgramPart : std::uint8_t {
  kWhole,   // the group of all ranks
  kEvens,   // the group of the even ones
  kSecond,  // the group of all ranks in another world
};
inline constexpr int kParts = 3;

// One op of the program; the same on every rank.
struct ProgramOp {
  ProgramPart part = ProgramPart::kWhole;
  int number = 0;
  comm::Collective collective{};
  int root = 0;
  std::uint64_t count = 0;  // elements of a block
  bool in_place = false;
  bool atomic = false;
  bool encoded = false;
  bool lossless = false;  // encoded: exactly
  bool is_float = false;  // a sum in which the order of its operands shows
  bool ordered = false;   // a float sum that asks for the order of ranks
  bool by_user = false;   // and by an operator of the caller's
  bool weighted = false;  // a float sum that is an average by weights
  bool is_shift = false;  // messages to the next rank, from the previous one
  std::uint64_t factor = 1;
  bool losses_raise = false;     // the group's on_peer_loss
  bool zero_holes = false;       // on_hole, by its group
  bool says_what_holes = false;  // or by the op's own on_hole
};

// The ops of a step in a group of so many ranks; all are started before the program waits for the
// first.
std::vector<ProgramOp> make_step(const Scenario& scenario, int step, ProgramPart part, int ranks);

// One rank's memory for an op, and what is right to find there.
class OpData {
 public:
  OpData(const ProgramOp& op, int rank, int ranks);

  comm::OpRequest request();
  // Empty, or what is wrong with the result.
  std::string check(const comm::Outcome& outcome) const;
  // Empty, or what an op that failed has changed, or why it must not fail so.
  std::string check_failed(const Status& status, const comm::Outcome& outcome) const;
  // Empty, or what an op under way has put into the caller's memory though it is neither the input
  // nor a result: a result has at least the ranks of `all` in it, which were there all the time.
  std::string check_input(const std::vector<Rank>& all);
  // Writes over the memory, as the program may do when its op has ended.
  void write_over();
  // A hash of the results that every rank must have alike; 0 where results differ by intent.
  std::uint64_t fingerprint() const;
  // A hash of this rank's sum, in which the order of its operands shows.
  std::uint64_t float_bits() const { return float_ ? float_->bits() : 0; }
  const ProgramOp& op() const { return op_; }
  int rank() const { return rank_; }

 private:
  comm::OpRequest plain_request();
  std::uint64_t given(int from, int to) const;
  std::string check_reduced(const std::vector<std::uint64_t>& out, std::uint64_t block,
                            const comm::Outcome& outcome) const;
  std::string check_scanned(const comm::Outcome& outcome) const;
  std::string check_copied(std::size_t at, int from, int to, const comm::Outcome& outcome) const;
  bool is_sum(std::uint64_t value, const comm::Outcome& outcome) const;
  std::string check_lost(const std::vector<Rank>& named, const comm::Outcome& outcome) const;

  ProgramOp op_;
  std::optional<EncodedData> encoded_;  // in place of all fields below; or
  std::optional<FloatData> float_;
  int rank_;
  int ranks_;
  std::vector<std::uint64_t> input_;   // blocks one after the other
  std::vector<std::uint64_t> before_;  // the input as it was, or a root's output
  std::vector<std::uint64_t> output_;  // blocks one after the other; as the input
  std::vector<std::uint64_t> right_;   // an in-place output, as it was when last found right
};

}  // namespace holdfast::sim
