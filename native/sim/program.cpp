#include "sim/program.h"

#include <algorithm>

#include "base/fnv.h"
#include "sim/has_rank.h"
#include "sim/random.h"
#include "sim/same_bits.h"

namespace holdfast::sim {
namespace {

using comm::Collective;

// Ranks whose contributions have a base-4 digit of their own in 64 bits, factor included.
constexpr int kDigitRanks = 28;
constexpr std::uint64_t kUnset = 0xabad'1dea'0000'0001ULL;

// What `rank` adds to a sum.
std::uint64_t share(int rank) {
  if (rank < kDigitRanks) return std::uint64_t{1} << (2 * rank);
  return Random(static_cast<std::uint64_t>(rank)).next() | 1;
}

comm::Block block_of(std::vector<std::uint64_t>& memory, std::uint64_t index, std::uint64_t count) {
  return {reinterpret_cast<std::byte*>(memory.data() + index * count), count};
}

}  // namespace

std::vector<ProgramOp> make_step(const Scenario& scenario, int step, ProgramPart part, int ranks) {
  const auto place = static_cast<std::uint64_t>(part);
  const std::uint64_t seed =
      scenario.seed * 1000 + static_cast<std::uint64_t>(step) + place * 1'000'000'007;
  Random random(seed + 7);
  static constexpr Collective kAll[] = {
      Collective::kAllReduce, Collective::kAllReduce, Collective::kBroadcast,
      Collective::kAllGather, Collective::kReduce,    Collective::kReduceScatter,
      Collective::kAllToAll,  Collective::kGather,    Collective::kScatter,
      Collective::kBarrier,   Collective::kSend};
  // A few ops for the whole group, one or two for the other groups.
  std::vector<ProgramOp> ops(1 + random.below(part == ProgramPart::kWhole ? 4 : 2));
  int number =
      step * kOpsPerStep + (part == ProgramPart::kWhole ? 0 : 2 + 2 * static_cast<int>(part));
  for (ProgramOp& op : ops) {
    op.part = part;
    op.number = number++;
    op.collective = kAll[random.below(std::size(kAll))];
    op.is_shift = op.collective == Collective::kSend;
    op.root = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
    op.count = random.below(static_cast<std::uint64_t>(scenario.elements) + 1);
    op.in_place = random.chance(60);
    op.atomic = random.chance(10);
    op.factor = 1 + random.below(200);
  }
  // A generator of its own, so that the other draws stay what they were.
  Random coding(seed + 8);
  for (ProgramOp& op : ops) {
    op.encoded = coding.chance(20) && EncodedData::takes(op.collective, ranks);
  }
  Random exact(seed + 9);
  for (ProgramOp& op : ops) op.lossless = op.encoded && exact.chance(35);
  Random floats(seed + 11);
  for (ProgramOp& op : ops) {
    op.is_float = floats.chance(30) && !op.encoded && FloatData::takes(op.collective);
  }
  Random orders(seed + 13);
  for (ProgramOp& op : ops) {
    op.ordered = orders.chance(50) && op.is_float;
    op.by_user = orders.chance(40) && op.ordered;
  }
  Random weights(seed + 14);
  for (ProgramOp& op : ops) op.weighted = weights.chance(50) && op.is_float && !op.by_user;
  Random scans(seed + 12);
  for (ProgramOp& op : ops) {
    const bool becomes = scans.chance(20) && reduces(op.collective) && !op.encoded && !op.is_float;
    const bool inclusive = scans.chance(50);
    if (becomes) op.collective = inclusive ? Collective::kScan : Collective::kExscan;
  }
  Random holes(seed + 10);
  for (ProgramOp& op : ops) {
    op.losses_raise = scenario.raise;
    op.says_what_holes = holes.chance(40);
    op.zero_holes = op.says_what_holes ? holes.chance(50) : scenario.zero_holes;
  }
  return ops;
}

OpData::OpData(const ProgramOp& op, int rank, int ranks) : op_(op), rank_(rank), ranks_(ranks) {
  if (op.encoded) {
    const bool residual =
        !op.lossless && (op.collective != Collective::kAllReduce || op.factor % 3 != 0);
    encoded_.emplace(
        EncodedOp{op.collective, op.root, op.count, op.atomic, op.factor, residual, op.lossless},
        rank, ranks);
    return;
  }
  if (op.is_float) {
    float_.emplace(FloatOp{op.collective, op.root, op.count, op.in_place, op.atomic, op.factor,
                           op.ordered, op.by_user, op.weighted},
                   rank, ranks);
    return;
  }
  const bool root = rank == op.root;
  const comm::CollectiveFacts& facts = comm::facts_of(op.collective);
  // A shift sends and receives; a broadcast has one buffer, which is its output.
  const bool broadcasts = op.collective == Collective::kBroadcast;
  const std::uint64_t in = broadcasts ? 0 : comm::block_count(facts.input, root, ranks);
  const std::uint64_t out = op.is_shift ? 1 : comm::block_count(facts.output, root, ranks);
  input_.resize(in * op.count);
  output_.assign(out * op.count, kUnset);
  for (std::uint64_t to = 0; to < in && op.count > 0; ++to) {
    const auto begin = input_.begin() + static_cast<std::ptrdiff_t>(to * op.count);
    std::fill_n(
        begin, op.count,
        reduces(op.collective) ? share(rank) * op.factor : given(rank, static_cast<int>(to)));
  }
  const bool over = op.collective == Collective::kAllReduce && op.in_place;
  if (over) output_ = right_ = input_;
  if (op.collective == Collective::kBroadcast && root) {
    std::fill(output_.begin(), output_.end(), given(rank, 0));
  }
  before_ = op.collective == Collective::kBroadcast && root ? output_ : input_;
}

std::uint64_t OpData::given(int from, int to) const {
  const bool personal = comm::has_input_blocks(op_.collective);
  return Random(op_.factor * 1'000'003 + static_cast<std::uint64_t>(from) * 1009 +
                (personal ? static_cast<std::uint64_t>(to) : 0))
             .next() |
         1;
}

comm::OpRequest OpData::request() {
  comm::OpRequest request = encoded_ ? encoded_->request()
                            : float_ ? float_->request()
                                     : plain_request();
  if (op_.says_what_holes) {
    request.on_hole = op_.zero_holes ? comm::OnHole::kZero : comm::OnHole::kRaise;
  }
  return request;
}

comm::OpRequest OpData::plain_request() {
  comm::OpRequest request;
  request.collective = op_.collective;
  request.dtype = DType::kU64;
  request.op = ReduceOp::kSum;
  request.root = {op_.root};
  request.atomic = op_.atomic;
  const std::uint64_t count = op_.count;
  const auto blocks = [&](std::vector<std::uint64_t>& memory, bool one) {
    std::vector<comm::Block> list;
    if (one) return std::vector{block_of(memory, 0, count)};
    list.reserve(static_cast<std::size_t>(ranks_));
    for (int r = 0; r < ranks_; ++r) {
      list.push_back(block_of(memory, static_cast<std::uint64_t>(r), count));
    }
    return list;
  };
  const bool root = rank_ == op_.root;
  const auto side = [&](const comm::BlockSide& of, auto& memory) {
    const bool any = comm::block_count(of, root, ranks_) > 0;
    return any ? blocks(memory, of.count == comm::BlockCount::kOne) : comm::BlockList();
  };
  const comm::CollectiveFacts& facts = comm::facts_of(op_.collective);
  request.input = side(facts.input, input_);
  request.output = side(facts.output, output_);
  const bool over = op_.collective == Collective::kAllReduce && op_.in_place;
  if (over || op_.collective == Collective::kBroadcast) request.input = request.output;
  if (op_.collective == Collective::kAllToAll) request.equal_blocks = op_.factor % 2 == 0;
  return request;
}

// Whether all contributors and some of the missing ranks add up to the value.
bool OpData::is_sum(std::uint64_t value, const comm::Outcome& outcome) const {
  std::uint64_t sure = 0;
  for (const Rank r : outcome.contributors) sure += share(r.value);
  if (value == sure * op_.factor) return true;
  if (ranks_ > kDigitRanks) {
    if (outcome.missing.size() > 8) return true;  // too many sets to tell
    for (std::uint64_t set = 1; set < std::uint64_t{1} << outcome.missing.size(); ++set) {
      std::uint64_t sum = sure;
      for (std::size_t i = 0; i < outcome.missing.size(); ++i) {
        if ((set >> i & 1) != 0) sum += share(outcome.missing[i].value);
      }
      if (value == sum * op_.factor) return true;
    }
    return false;
  }
  if (value % op_.factor != 0) return false;
  const std::uint64_t digits = value / op_.factor;
  std::uint64_t may = sure;
  for (const Rank r : outcome.missing) may |= share(r.value);
  // A digit of more than one bit is in no rank's share.
  return (digits & sure) == sure && (digits & ~may) == 0;
}

std::string OpData::check_reduced(const std::vector<std::uint64_t>& out, std::uint64_t block,
                                  const comm::Outcome& outcome) const {
  for (std::uint64_t i = 0; i < op_.count; ++i) {
    const std::uint64_t value = out[block * op_.count + i];
    if (i > 0 && value == out[block * op_.count + i - 1]) continue;
    if (!is_sum(value, outcome)) {
      return "element " + std::to_string(i) +
             " is no sum of the contributors: " + std::to_string(value) + " / " +
             std::to_string(op_.factor);
    }
    if (op_.atomic && value != out[block * op_.count]) return "an atomic op of several parts";
  }
  return {};
}

// Only the ranks up to this one count. Where none of them contributed, nothing was written, or, of
// those that are missing, what was there before they were lost.
std::string OpData::check_scanned(const comm::Outcome& outcome) const {
  comm::Outcome before = outcome;
  const int end = rank_ + (op_.collective == Collective::kScan ? 1 : 0);
  const auto is_behind = [end](Rank r) { return r.value >= end; };
  std::erase_if(before.contributors, is_behind);
  std::erase_if(before.missing, is_behind);
  if (!before.contributors.empty()) return check_reduced(output_, 0, before);
  for (std::uint64_t i = 0; i < op_.count; ++i) {
    if (output_[i] == kUnset || (!before.missing.empty() && is_sum(output_[i], before))) continue;
    return "element " + std::to_string(i) + " was written though nobody comes before";
  }
  return {};
}

std::string OpData::check_copied(std::size_t at, int from, int to,
                                 const comm::Outcome& outcome) const {
  const std::uint64_t right = given(from, to);
  const bool sure = has(outcome.contributors, from);
  for (std::uint64_t i = 0; i < op_.count; ++i) {
    const std::uint64_t value = output_[at * op_.count + i];
    if (value == right || (!sure && value == 0)) continue;
    return "element " + std::to_string(i) + " of rank " + std::to_string(from) + "'s block is " +
           std::to_string(value);
  }
  return {};
}

std::string OpData::check(const comm::Outcome& told) const {
  comm::Outcome outcome = told;
  if (gathers(op_.collective) && !op_.zero_holes) {
    if (!told.missing.empty()) return "ended well with a hole";
    // Whatever the outcome says, there must be no zeros.
    for (int rank = 0; rank < ranks_; ++rank) outcome.contributors.push_back({rank});
  }
  if (encoded_) return encoded_->check(outcome);
  if (float_) return float_->check(outcome);
  const bool root = rank_ == op_.root;
  switch (op_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter: return check_reduced(output_, 0, outcome);
    case Collective::kScan:
    case Collective::kExscan: return check_scanned(outcome);
    case Collective::kReduce: return root ? check_reduced(output_, 0, outcome) : "";
    case Collective::kBroadcast:
    case Collective::kScatter: {
      comm::Outcome all = outcome;
      all.contributors.push_back({op_.root});
      return check_copied(0, op_.root, rank_, all);
    }
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kGather:
      if (op_.collective == Collective::kGather && !root) return {};
      for (int from = 0; from < ranks_; ++from) {
        std::string wrong = check_copied(static_cast<std::size_t>(from), from, rank_, outcome);
        if (!wrong.empty()) return wrong;
      }
      return {};
    default: return {};
  }
}

// Checks which ranks are named, and whether a loss may end this op at all: reductions go on.
std::string OpData::check_lost(const std::vector<Rank>& named, const comm::Outcome& outcome) const {
  if (named.empty()) return "PeerLost names nobody";
  if (op_.losses_raise) return {};
  if (is_rooted(op_.collective) && named == std::vector<Rank>{{op_.root}}) return {};
  if (!gathers(op_.collective)) return "PeerLost of an op whose result has no hole";
  if (op_.zero_holes) return "PeerLost where zeros were asked for";
  return named == outcome.missing ? "" : "PeerLost names other ranks than are missing";
}

std::string OpData::check_failed(const Status& status, const comm::Outcome& outcome) const {
  std::string wrong = encoded_ ? encoded_->check_failed() : "";
  if (wrong.empty() && status.code() == Code::kPeerLost) {
    wrong = check_lost(status.ranks(), outcome);
  }
  return wrong;
}

std::string OpData::check_input(const std::vector<Rank>& all) {
  if (encoded_) return encoded_->check_input();
  if (float_) return float_->check_input(all);
  if (op_.collective == Collective::kBroadcast) {
    return rank_ == op_.root && !same_bits(output_, before_) ? "a root's data has changed" : "";
  }
  if (!same_bits(input_, before_)) return "an input has changed";
  const bool over = op_.collective == Collective::kAllReduce && op_.in_place;
  if (!over || ranks_ > kDigitRanks || same_bits(output_, right_)) return {};
  comm::Outcome least;
  least.contributors = all;
  for (int r = 0; r < ranks_; ++r) {
    if (!has(all, r)) least.missing.push_back({r});
  }
  for (std::uint64_t i = 0; i < op_.count; ++i) {
    if (output_[i] == share(rank_) * op_.factor || output_[i] == right_[i]) continue;
    if (!is_sum(output_[i], least)) {
      return "element " + std::to_string(i) + " holds a partial sum";
    }
  }
  right_ = output_;
  return {};
}

void OpData::write_over() {
  std::fill(input_.begin(), input_.end(), kUnset);
  std::fill(output_.begin(), output_.end(), kUnset);
  if (float_) float_->write_over();
}

std::uint64_t OpData::fingerprint() const {
  if (encoded_) return encoded_->fingerprint();
  if (float_) return float_->is_replicated() ? float_->bits() : 0;
  if (!comm::is_replicated(op_.collective) || !comm::has_elements(op_.collective)) return 0;
  Fnv1a hash;
  for (const std::uint64_t value : output_) hash.mix(value);
  return hash.value();
}

}  // namespace holdfast::sim
