#include "sim/encoded_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/fnv.h"
#include "comm/algorithms/catalogue.h"
#include "compress/zstd_bytes.h"
#include "sim/has_rank.h"
#include "sim/same_bits.h"

namespace holdfast::sim {
namespace {

using comm::Collective;

// An element is put in as twice its residual from before: encoded it counts three times the
// residual, unencoded twice. All elements of a block have one value, which int8 keeps except for a
// rounding.
constexpr float kPutIn = 2;
constexpr float kEncoded = 3;
constexpr float kNear = 1e-3F;
// The part of a sum of all ranks that encoding the sum leaves out; less than the residual of any
// rank.
constexpr float kLeftOfSum = 5e-5F;
// Limit of ranks whose sums, one bit for each rank, can be told apart in f32.
constexpr int kMostRanks = 9;

bool is_near(float value, float right) { return std::abs(value - right) <= kNear * right; }

std::vector<comm::Block> blocks_of(std::vector<float>& memory, std::uint64_t count) {
  std::vector<comm::Block> blocks;
  for (std::uint64_t at = 0; at < memory.size(); at += count) {
    blocks.push_back({reinterpret_cast<std::byte*>(memory.data() + at), count});
  }
  return blocks;
}

}  // namespace

bool EncodedData::takes(Collective c, int ranks) {
  return ranks <= kMostRanks && comm::find_encoded(c) != nullptr;
}

EncodedData::EncodedData(const EncodedOp& op, int rank, int ranks)
    : op_(op), rank_(rank), ranks_(ranks) {
  // An empty block cannot be in a list of blocks that is cut by size.
  op_.count = std::max<std::uint64_t>(op.count, 1);
  op_.lossless = op.lossless && compress::has_zstd();
  CHECK(!op_.lossless || !op.residual);
  const auto n = static_cast<std::uint64_t>(ranks);
  input_.resize((comm::has_input_blocks(op.collective) ? n : 1) * op_.count);
  output_.assign((comm::has_output_blocks(op.collective) ? n : 1) * op_.count, -1.0F);
  if (op.residual) residual_.resize(input_.size());
  for (std::size_t i = 0; i < input_.size(); ++i) {
    const auto to = static_cast<int>(i / op_.count);
    input_[i] = put_in(rank, to);
    if (op.residual) residual_[i] = residual_of(rank, to);
  }
  if (op.collective == Collective::kBroadcast || is_in_place()) output_ = input_;
  before_ = input_;
  residual_before_ = residual_;
}

float EncodedData::residual_of(int from, int to) const {
  const auto scale = static_cast<float>(1 + op_.factor % 8);
  if (comm::reduces(op_.collective)) return scale * static_cast<float>(1 << from);
  return scale *
         static_cast<float>(1 + from * ranks_ + (comm::has_input_blocks(op_.collective) ? to : 0));
}

float EncodedData::put_in(int from, int to) const { return kPutIn * residual_of(from, to); }

comm::OpRequest EncodedData::request() {
  comm::OpRequest request;
  request.collective = op_.collective;
  request.dtype = DType::kF32;
  request.op = ReduceOp::kSum;
  request.root = {op_.root};
  request.atomic = op_.atomic;
  request.codec = std::make_shared<compress::Codec>(
      std::move(compress::Codec::parse(op_.lossless ? "zstd" : "int8")).value());
  request.input = blocks_of(input_, op_.count);
  request.output = blocks_of(output_, op_.count);
  if (op_.collective == Collective::kBroadcast || is_in_place()) request.input = request.output;
  for (std::uint64_t at = 0; at < residual_.size(); at += op_.count) {
    request.residual.push_back(residual_.data() + at);
  }
  return request;
}

// Where this rank has both an element's value and its residual, both must be encoded or neither.
std::string EncodedData::check_element(std::uint64_t block, std::uint64_t i,
                                       const comm::Outcome& outcome) const {
  const float value = output_[block * op_.count + i];
  const auto wrong = [&](const std::string& what) {
    return "element " + std::to_string(i) + " of block " + std::to_string(block) + " is " +
           std::to_string(value) + ": " + what;
  };
  const bool exchanged = op_.collective == Collective::kAllToAll;
  const int from = op_.collective == Collective::kBroadcast ? op_.root : static_cast<int>(block);
  const auto own = static_cast<std::uint64_t>(rank_);
  const bool mine = comm::reduces(op_.collective) || (!exchanged && from == rank_);
  const std::uint64_t at = (op_.collective == Collective::kReduceScatter ? own : 0) * op_.count + i;
  // Without a residual, the encoded value is what was put in.
  const bool has_residual = !op_.residual || (mine && residual_[at] == residual_of(rank_, rank_));
  if (!comm::reduces(op_.collective)) {
    if (value == 0 && !has(outcome.contributors, from)) return {};
    const float unit = residual_of(from, rank_);
    const bool encoded = is_near(value, kEncoded * unit);
    if (!encoded && value != kPutIn * unit) return wrong("neither encoded nor as it was");
    if (exchanged && from == rank_ && encoded) return wrong("encoded for oneself");
    return mine && encoded == has_residual ? wrong("its residual says otherwise") : "";
  }
  const float unit = residual_of(0, 0) * (has_residual ? kPutIn : kEncoded);
  const auto mask = static_cast<int>(std::lround(value / unit));
  const float sum = unit * static_cast<float>(mask);
  if (op_.lossless ? value != sum : !is_near(value, sum)) return wrong("no sum of ranks");
  for (int r = 0; r < ranks_; ++r) {
    const bool in = (mask >> r & 1) != 0;
    if (has(outcome.contributors, r) && !in) return wrong("lacks a contributor");
    if (in && !has(outcome.contributors, r) && !has(outcome.missing, r)) {
      return wrong("has another rank in it");
    }
  }
  return {};
}

// Whether the element and its residuals are the same as the one before, as most elements of a block
// are.
bool EncodedData::is_as_before(std::uint64_t k) const {
  if (k % op_.count == 0 || output_[k] != output_[k - 1]) return false;
  for (std::uint64_t at = k % op_.count; at < residual_.size(); at += op_.count) {
    if (residual_[at] != residual_[at - 1]) return false;
  }
  return true;
}

std::string EncodedData::check_residual(std::uint64_t block, std::uint64_t i) const {
  const float before = residual_of(rank_, static_cast<int>(block));
  const float value = residual_[block * op_.count + i];
  const bool never = (op_.collective == Collective::kBroadcast && rank_ != op_.root) ||
                     (op_.collective == Collective::kAllToAll && rank_ == static_cast<int>(block));
  float left = kNear * before;
  if (op_.collective == Collective::kAllReduce) {
    left += kLeftOfSum * kEncoded * residual_of(0, 0) * static_cast<float>((1 << ranks_) - 1);
  }
  if (value == before || (!never && std::abs(value) <= left)) return {};
  return "residual " + std::to_string(i) + " of block " + std::to_string(block) + " is " +
         std::to_string(value) + ", was " + std::to_string(before);
}

std::string EncodedData::check(const comm::Outcome& outcome) const {
  comm::Outcome known = outcome;
  // A root that has gone since has still given the whole result.
  if (op_.collective == Collective::kBroadcast) known.contributors.push_back({op_.root});
  for (std::uint64_t k = 0; k < output_.size(); ++k) {
    if (is_as_before(k)) continue;
    std::string wrong = check_element(k / op_.count, k % op_.count, known);
    if (!wrong.empty()) return wrong;
  }
  for (std::uint64_t k = 0; k < residual_.size(); ++k) {
    std::string wrong = check_residual(k / op_.count, k % op_.count);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string EncodedData::check_failed() const {
  return same_bits(residual_, residual_before_) ? ""
                                                : "a residual was committed with an op that failed";
}

std::string EncodedData::check_input() const {
  if (!same_bits(input_, before_)) return "an input has changed";
  return same_bits(residual_, residual_before_)
             ? ""
             : "a residual was committed before its op had ended";
}

std::uint64_t EncodedData::fingerprint() const {
  if (comm::has_input_blocks(op_.collective)) {
    return 0;
  }
  Fnv1a hash;
  for (const float value : output_) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash.mix(std::uint64_t{bits});
  }
  return hash.value();
}

}  // namespace holdfast::sim
