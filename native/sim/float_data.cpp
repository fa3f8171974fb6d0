#include "sim/float_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/fnv.h"
#include "sim/random.h"
#include "sim/same_bits.h"

namespace holdfast::sim {
namespace {

using comm::Collective;

// As a part of the sum of all magnitudes: far more than roundings make, far less than the least
// share.
constexpr double kRounding = 1e-5;
// Limit of ranks that may be in a sum or not: their sets are all tried, and more would be too many.
constexpr std::size_t kMostUnsure = 8;

bool lists(const std::vector<Rank>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), Rank{rank}) != ranks.end();
}

comm::Block float_block(std::vector<float>& memory, std::uint64_t index, std::uint64_t count) {
  return {reinterpret_cast<std::byte*>(memory.data() + index * count), count};
}

// Sums of floats are no bytes to anybody else.
void bring_operator(comm::OpRequest& request) {
  auto user = std::make_shared<comm::UserOp>();
  user->element_bytes = sizeof(float);
  user->apply = [](const void* in, void* inout, std::uint64_t count) {
    const auto* left = static_cast<const float*>(in);
    auto* sum = static_cast<float*>(inout);
    for (std::uint64_t i = 0; i < count; ++i) sum[i] = left[i] + sum[i];
  };
  request.dtype = DType::kU8;
  request.op = ReduceOp::kUser;
  request.user = std::move(user);
}

}  // namespace

bool FloatData::takes(Collective c) { return comm::reduces(c); }

FloatData::FloatData(const FloatOp& op, int rank, int ranks) : op_(op), rank_(rank), ranks_(ranks) {
  const std::uint64_t blocks =
      comm::has_input_blocks(op.collective) ? static_cast<std::uint64_t>(ranks) : 1;
  input_.resize(blocks * op.count);
  for (std::uint64_t i = 0; i < input_.size(); ++i) input_[i] = share(rank, i);
  before_ = right_ = input_;
  output_.assign(comm::has_result(op.collective, rank == op.root) ? op.count : 0, -1.0F);
}

// A value of 1 to 16 with a full mantissa: a few of them in another order round in another way.
float FloatData::share(int rank, std::uint64_t element) const {
  const std::uint64_t bits =
      Random(op_.factor * 7919 + static_cast<std::uint64_t>(rank) * 104'729 + element * 31).next();
  const auto mantissa = static_cast<float>(bits >> 41) / static_cast<float>(1 << 23);
  return (1.0F + mantissa) * static_cast<float>(1 << (bits & 3));
}

// Of any size; every fifth rank or so counts nothing.
double FloatData::weight(int rank) const {
  const std::uint64_t bits = Random(op_.factor * 104'003 + static_cast<std::uint64_t>(rank)).next();
  return bits % 5 == 0 ? 0 : static_cast<double>(bits % 1000) / 7;
}

comm::OpRequest FloatData::request() {
  comm::OpRequest request;
  request.collective = op_.collective;
  request.dtype = DType::kF32;
  request.op = ReduceOp::kSum;
  request.root = {op_.root};
  request.atomic = op_.atomic;
  if (op_.ordered) request.order = comm::FoldOrder::kRanks;
  if (op_.by_user) bring_operator(request);
  if (op_.weighted) {
    request.op = ReduceOp::kAvg;
    request.weight = weight(rank_);
  }
  const std::uint64_t blocks =
      comm::has_input_blocks(op_.collective) ? static_cast<std::uint64_t>(ranks_) : 1;
  for (std::uint64_t at = 0; at < blocks; ++at) {
    request.input.push_back(float_block(input_, at, op_.count));
  }
  if (op_.collective == Collective::kAllReduce && op_.in_place) {
    request.output = request.input;
  } else if (comm::has_result(op_.collective, rank_ == op_.root)) {
    request.output = {float_block(output_, 0, op_.count)};
  }
  return request;
}

// Whether the value is the sum, or average, of what these ranks have, rising: with roundings in any
// order, or to the last bit in theirs.
bool FloatData::is_sum_of(float value, std::uint64_t element, const std::vector<int>& ranks) const {
  std::vector<double> weights;
  weights.reserve(ranks.size());
  for (const int rank : ranks) weights.push_back(op_.weighted ? weight(rank) : 1);
  const double most = *std::max_element(weights.begin(), weights.end());
  float folded = 0;
  double sum = 0;
  double total = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double by = most > 0 ? weights[i] / most : 0;
    const double exact = by * static_cast<double>(share(ranks[i], element));
    const auto part = static_cast<float>(exact);
    folded = i == 0 ? part : folded + part;
    sum += exact;
    total += by;
  }
  if (op_.weighted && total > 0) {
    folded = static_cast<float>(static_cast<double>(folded) / total);
    sum /= total;
  }
  if (op_.ordered) return value == folded;
  return std::abs(sum - static_cast<double>(value)) <= kRounding * sum;
}

// Whether the value is the sum of all contributors and some of the missing ranks.
bool FloatData::is_sum(float value, std::uint64_t element, const comm::Outcome& outcome) const {
  std::vector<int> unsure;
  for (int r = 0; r < ranks_; ++r) {
    const bool sure = lists(outcome.contributors, r);
    if (!sure && lists(outcome.missing, r)) unsure.push_back(r);
  }
  if (unsure.size() > kMostUnsure) return true;
  for (std::uint64_t set = 0; set < std::uint64_t{1} << unsure.size(); ++set) {
    std::vector<int> ranks;
    for (const Rank r : outcome.contributors) ranks.push_back(r.value);
    for (std::size_t i = 0; i < unsure.size(); ++i) {
      if ((set >> i & 1) != 0) ranks.push_back(unsure[i]);
    }
    std::sort(ranks.begin(), ranks.end());
    if (is_sum_of(value, element, ranks)) return true;
  }
  return false;
}

std::string FloatData::check(const comm::Outcome& outcome) const {
  const bool over = op_.collective == Collective::kAllReduce && op_.in_place;
  const std::vector<float>& out = over ? input_ : output_;
  const std::uint64_t block =
      op_.collective == Collective::kReduceScatter ? static_cast<std::uint64_t>(rank_) : 0;
  for (std::uint64_t i = 0; i < out.size(); ++i) {
    if (is_sum(out[i], block * op_.count + i, outcome)) continue;
    return "float " + std::to_string(i) +
           " is no sum of the contributors: " + std::to_string(out[i]);
  }
  return {};
}

std::string FloatData::check_input(const std::vector<Rank>& all) {
  if (same_bits(input_, right_)) return {};
  if (op_.collective != Collective::kAllReduce || !op_.in_place) return "an input has changed";
  comm::Outcome least;
  least.contributors = all;
  for (int r = 0; r < ranks_; ++r) {
    if (!lists(all, r)) least.missing.push_back({r});
  }
  for (std::uint64_t i = 0; i < input_.size(); ++i) {
    if (input_[i] == before_[i] || input_[i] == right_[i]) continue;
    if (!is_sum(input_[i], i, least)) {
      return "float " + std::to_string(i) + " holds a partial sum";
    }
  }
  right_ = input_;
  return {};
}

void FloatData::write_over() {
  std::fill(input_.begin(), input_.end(), -1.0F);
  std::fill(output_.begin(), output_.end(), -1.0F);
}

std::uint64_t FloatData::bits() const {
  Fnv1a hash;
  const bool over = op_.collective == Collective::kAllReduce && op_.in_place;
  for (const float value : over ? input_ : output_) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash.mix(std::uint64_t{bits});
  }
  return hash.value();
}

}  // namespace holdfast::sim
