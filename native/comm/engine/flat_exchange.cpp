#include "comm/engine/flat_exchange.h"

#include <algorithm>

#include "base/copy.h"
#include "base/planted.h"
#include "base/yield_point.h"

namespace holdfast::comm {
namespace {

std::uint64_t blocks_bytes(const BlockList& blocks, std::uint64_t element) {
  std::uint64_t count = 0;
  for (const Block& b : blocks) count += b.count;
  return count * element;
}

bool equal_blocks(const BlockList& blocks) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const Block& b) { return b.count == blocks.front().count; });
}

}  // namespace

FlatExchange::FlatExchange(Rank rank, Epoch epoch, std::vector<HostPeer> peers, std::uint64_t done)
    : rank_(rank),
      peers_(std::move(peers)),
      half_(epoch.value % 2),
      first_(first_count(epoch) + done),
      op_(first_) {
  // A counter left from before the view before last belongs to no view that a rank still reads. It
  // must not stay: the counter's epoch bits wrap, so it could be taken for this view's.
  std::atomic<std::uint64_t>& posted = area(rank_).posted;
  const std::uint64_t left = posted.load(std::memory_order_relaxed);  // relaxed: its own
  if (!same_view(left, first_ - first_count({2}))) take_back(posted, first_);
}

bool FlatExchange::carries(const OpRequest& request, int size) {
  if (size < 2 || request.codec) return false;
  // A sum reads all ranks' inputs: with many ranks that pays for smaller inputs only.
  const std::uint64_t limit =
      std::min(kFlatBytes, kFlatReadBytes / static_cast<std::uint64_t>(size));
  switch (request.collective) {
    case Collective::kBarrier: return true;
    case Collective::kAllReduce:
    case Collective::kScan:
    case Collective::kExscan:
    case Collective::kReduce: return blocks_bytes(request.input, request.element_bytes()) <= limit;
    case Collective::kReduceScatter:
      return equal_blocks(request.input) &&
             blocks_bytes(request.input, request.element_bytes()) <= limit;
    case Collective::kBroadcast:
      return blocks_bytes(request.output, request.element_bytes()) <= kFlatMoveBytes;
    case Collective::kAllGather:
      return equal_blocks(request.output) &&
             blocks_bytes(request.input, request.element_bytes()) <= kFlatMoveBytes &&
             blocks_bytes(request.output, request.element_bytes()) <= kFlatGatherBytes;
    case Collective::kAllToAll:
      return request.equal_blocks &&
             blocks_bytes(request.input, request.element_bytes()) <= kFlatMoveBytes;
    default: return false;  // not every rank knows the others' sizes
  }
}

void FlatExchange::begin(const OpRequest& request, std::uint32_t signature) {
  CHECK(stage_ == FlatStage::kDone);
  ++op_;
  request_ = &request;
  signature_ = signature;
  const bool publishes = input_counts(request.collective, request.root == rank_);
  element_ = request.element_bytes();
  input_bytes_ = publishes ? blocks_bytes(request.input, element_) : 0;
  if (request.weight) input_bytes_ += sizeof(double);
  stage_ = FlatStage::kBegun;
}

bool FlatExchange::advance() {
  moved_ = false;
  if (stage_ == FlatStage::kBegun) {
    publish();
    stage_ = FlatStage::kCollect;
    moved_ = true;
  }
  if (stage_ == FlatStage::kCollect && collected()) {
    yield_point();
    if (failure_.is_ok()) finish();
    if (was_left_behind()) {
      failure_ = {};
      stage_ = FlatStage::kLeftBehind;
      return false;
    }
    stage_ = FlatStage::kDone;
    moved_ = true;
  }
  return stage_ == FlatStage::kDone;
}

void FlatExchange::publish() {
  FlatArea::FlatHalf& own = area(rank_);
  // A rank may still read this half for the view before last: its reads must fail from here on.
  if (!same_view(own.posted.load(std::memory_order_relaxed), first_)) take_back(own.posted, first_);
  FlatArea::Head& head = own.heads[op_ % 2];
  std::byte* at = input_bytes_ <= kFlatFewBytes ? head.few : own.slots[op_ % 2].data;
  if (input_bytes_ > 0) {
    for (const Block& block : request_->input) {
      const std::uint64_t bytes = block.count * element_;
      copy_bytes(at, block.data, bytes);
      at += bytes;
    }
    if (request_->weight) copy_bytes(at, &*request_->weight, sizeof(double));
  }
  head.signature = signature_;
  head.bytes = static_cast<std::uint32_t>(input_bytes_);
  own.posted.store(op_, std::memory_order_release);  // release: the slot is written
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int r = 0; r < size(); ++r) {
    if (r != rank_.value) peers_[index({r})].ring_published();
  }
}

// Whether this rank's result depends on the input of `rank`.
bool FlatExchange::reads(Rank rank) const {
  switch (request_->collective) {
    case Collective::kBroadcast: return rank == request_->root;
    case Collective::kReduce: return rank_ == request_->root;
    case Collective::kScan: return rank.value <= rank_.value;
    case Collective::kExscan: return rank.value < rank_.value;
    default: return true;
  }
}

bool FlatExchange::collected() {
  for (int r = 0; r < size(); ++r) {
    if (!reached(area({r}).posted, op_)) return false;
  }
  for (int r = 0; r < size(); ++r) {
    if (!reads({r})) continue;
    const FlatArea::Head& from = head({r});
    const bool rooted = request_->collective == Collective::kBroadcast && rank_ != request_->root;
    const std::uint64_t expected = rooted ? blocks_bytes(request_->output, element_) : input_bytes_;
    if (from.signature == signature_ && from.bytes == expected) continue;
    failure_ =
        Status(Code::kProtocolError,
               "calls do not match: this rank has " + std::to_string(expected) + " bytes, rank " +
                   std::to_string(r) + " has " + std::to_string(from.bytes) +
                   (from.bytes == expected ? " but another call, now or earlier" : ""))
            .about({Rank{r}}, {});
    return true;
  }
  return true;
}

void FlatExchange::fold(std::uint64_t offset, std::byte* out, std::uint64_t count) const {
  if (request_->weight) return fold_weighed(offset, out, count);
  const Reducer kernel = request_->reducer();
  const auto operand = [&](int i) {
    return slot({is_planted(Planted::kOwnOrder) ? (rank_.value + i) % size() : i}) + offset;
  };
  kernel(out, operand(0), operand(1), count);
  for (int i = 2; i < size(); ++i) kernel(out, out, operand(i), count);
  if (request_->op == ReduceOp::kAvg) {
    divide_kernel(request_->dtype)(out, count, static_cast<std::uint32_t>(size()));
  }
}

// Each rank's weight lies behind its input.
void FlatExchange::fold_weighed(std::uint64_t offset, std::byte* out, std::uint64_t count) const {
  ShortList<double, 8> weights;
  for (int r = 0; r < size(); ++r) {
    double weight = 0;
    copy_bytes(&weight, slot({r}) + input_bytes_ - sizeof weight, sizeof weight);
    weights.push_back(weight);
  }
  const WeightScales scales({weights.data(), weights.size()});
  const Reducer kernel = request_->reducer();
  const auto operand = [&](int i) { return ScaledOperand{slot({i}) + offset, scales.of(i)}; };
  combine_scaled(kernel, request_->dtype, out, operand(0), operand(1), count);
  for (int i = 2; i < size(); ++i) {
    combine_scaled(kernel, request_->dtype, out, {out}, operand(i), count);
  }
  const RankWeighing weighing = scales.weighing_of(rank_.value);
  if (weighing.divides()) share_kernel(request_->dtype)(out, count, weighing.total);
}

// The sum of the first `operands` ranks.
void FlatExchange::scan(int operands) const {
  const Block& out = request_->output[0];
  if (operands == 0) return;
  const Reducer kernel = request_->reducer();
  if (operands == 1) return copy_bytes(out.data, slot({0}), out.count * element_);
  kernel(out.data, slot({0}), slot({1}), out.count);
  for (int i = 2; i < operands; ++i) kernel(out.data, out.data, slot({i}), out.count);
}

void FlatExchange::finish() {
  switch (request_->collective) {
    case Collective::kAllReduce:
      fold(0, request_->output[0].data, request_->output[0].count);
      break;
    case Collective::kReduce:
      if (rank_ == request_->root) fold(0, request_->output[0].data, request_->output[0].count);
      break;
    case Collective::kScan: scan(rank_.value + 1); break;
    case Collective::kExscan: scan(rank_.value); break;
    case Collective::kReduceScatter: {
      const Block& out = request_->output[0];
      fold(static_cast<std::uint64_t>(rank_.value) * out.count * element_, out.data, out.count);
      break;
    }
    case Collective::kAllGather:
      for (int r = 0; r < size(); ++r) {
        const Block& out = request_->output[index({r})];
        copy_bytes(out.data, slot({r}), out.count * element_);
      }
      break;
    case Collective::kAllToAll:
      for (int r = 0; r < size(); ++r) {
        const Block& out = request_->output[index({r})];
        const std::uint64_t bytes = out.count * element_;
        if (bytes == 0) continue;
        copy_bytes(out.data, slot({r}) + static_cast<std::uint64_t>(rank_.value) * bytes, bytes);
      }
      break;
    case Collective::kBroadcast:
      if (rank_ != request_->root && request_->output[0].count > 0) {
        const Block& out = request_->output[0];
        copy_bytes(out.data, slot(request_->root), out.count * element_);
      }
      break;
    default: break;
  }
}

// Called after a read of others' slots: a member that is two views ahead writes to the same slots.
// This rank is then in neither of those views, and will be told so; its op ends here.
bool FlatExchange::was_left_behind() const {
  if (is_planted(Planted::kNoLeftBehind)) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  for (int r = 0; r < size(); ++r) {
    if (r != rank_.value && !reached(area({r}).posted, op_)) return true;
  }
  return false;
}

std::vector<Rank> FlatExchange::waited_for() const {
  std::vector<Rank> ranks;
  for (int r = 0; r < size(); ++r) {
    if (stage_ == FlatStage::kCollect && !reached(area({r}).posted, op_)) ranks.push_back({r});
  }
  return ranks;
}

}  // namespace holdfast::comm
