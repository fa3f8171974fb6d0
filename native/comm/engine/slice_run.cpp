#include "comm/engine/slice_run.h"

#include <algorithm>
#include <string>

#include "base/cache_line.h"
#include "base/copy.h"
#include "base/planted.h"
#include "base/yield_point.h"

namespace holdfast::comm {
namespace {

// Bytes folded at a time: partial results stay in the first-level cache.
constexpr std::uint64_t kFoldBytes = 8 * 1024;

// How many elements each block has.
std::uint64_t extent(const OpRequest& request) {
  const bool by_output =
      request.collective == Collective::kBroadcast || request.collective == Collective::kAllGather;
  return by_output ? request.output[0].count : request.input[0].count;
}

// Elements to a cache line. The parts that ranks work on in parallel begin on such lines.
std::uint64_t line_elements(std::uint64_t element_bytes) {
  return std::max<std::uint64_t>(1, kCacheLine / element_bytes);
}

}  // namespace

SliceRun::SliceRun(SliceExchange& exchange, const OpRequest& request, std::uint32_t signature,
                   std::uint64_t number)
    : x_(exchange),
      request_(request),
      signature_(signature),
      number_(number),
      element_(request.element_bytes()),
      blocks_(request.collective == Collective::kReduceScatter
                  ? static_cast<std::uint64_t>(exchange.size())
                  : 1),
      count_(extent(request)) {
  const std::uint64_t line = line_elements(element_);
  slice_ = std::max(line, x_.slice_bytes_ / element_ / blocks_ / line * line);
  slices_ = (count_ + slice_ - 1) / slice_;
  if (folds()) {
    kernel_ = request.reducer();
    if (request.op == ReduceOp::kAvg && !request.weight) divide_ = divide_kernel(request.dtype);
  }
}

SliceRun::ElementSpan SliceRun::share(const ElementSpan& of, int rank) const {
  const std::uint64_t line = line_elements(element_);
  const auto ranks = static_cast<std::uint64_t>(x_.size());
  const std::uint64_t lines = (of.count + line - 1) / line;
  const std::uint64_t each = (lines + ranks - 1) / ranks * line;
  const std::uint64_t begin = std::min(of.count, each * static_cast<std::uint64_t>(rank));
  return {begin, std::min(each, of.count - begin)};
}

bool SliceRun::can_pull() const {
  if (!checked_ || pulled_ == slices_) return false;
  if (is(Collective::kBroadcast)) {
    return reached(x_.area(request_.root.value).staged, through(pulled_));
  }
  if (!folds()) return x_.all_at(&SliceArea::SliceHalf::staged, through(pulled_));
  return pulled_ < reduced_ && x_.all_at(&SliceArea::SliceHalf::reduced, through(pulled_));
}

void SliceRun::advance() {
  if (finished_ || left_behind_ || !failure_.is_ok() || number_ != x_.ended_) return;
  if (!begun_) begin();
  if (can_check()) check();
  if (left_behind_ || !failure_.is_ok()) return;
  // Reductions go first: other ranks wait for them.
  if (can_reduce()) reduce();
  if (can_stage()) stage();
  if (!left_behind_ && can_pull()) pull();
  if (checked_ && staged_ == slices_ && reduced_ == slices_ && pulled_ == slices_) {
    finished_ = true;
    x_.end_op(number_, slices_);
  }
}

void SliceRun::begin() {
  begun_ = true;
  SliceArea::SliceHalf& own = x_.area(x_.rank_);
  const PoolPlace place = folds() ? x_.place_of(request_) : PoolPlace{};
  lends_ = place.arena != 0;
  own.calls[number_ % 2] = {count_ * blocks_ * element_, signature_, place.arena, place.offset,
                            request_.weight.value_or(0)};
  own.begun.store(mark(), std::memory_order_release);
  // Phases in which this rank has no part count as done.
  if (!stages() || lends_) publish(&SliceArea::SliceHalf::staged, staged_ = slices_);
  if (!folds()) publish(&SliceArea::SliceHalf::reduced, reduced_ = slices_);
  if (!pulls() && !folds()) publish(&SliceArea::SliceHalf::pulled, pulled_ = slices_);
}

void SliceRun::publish(std::atomic<std::uint64_t> SliceArea::SliceHalf::*counter,
                       std::uint64_t done) {
  std::atomic<std::uint64_t>& own = x_.area(x_.rank_).*counter;
  // relaxed: only this rank writes it
  const std::uint64_t before = own.load(std::memory_order_relaxed);
  own.store(x_.next_slice_ + done, std::memory_order_release);
  // In a broadcast the others wait for the root alone.
  if (is(Collective::kBroadcast) && is_root() && counter == &SliceArea::SliceHalf::staged) {
    x_.ring_all();
  } else {
    x_.ring_if_last(counter, same_view(before, x_.first_) ? before : x_.first_);
  }
}

void SliceRun::check() {
  checked_ = true;
  ShortList<double, 8> weights;
  for (int r = 0; r < x_.size(); ++r) {
    const SliceArea::SliceCall call = x_.area(r).calls[number_ % 2];
    weights.push_back(call.weight);
    const std::uint64_t bytes = count_ * blocks_ * element_;
    if (call.signature == signature_ && call.bytes == bytes) {
      if (r != x_.rank_ && call.arena != 0) borrow(r, call);
      if (failure_.is_ok()) continue;
      return;
    }
    if (was_left_behind()) return;
    failed_peer_ = {r};
    failure_ = {Code::kProtocolError,
                "calls do not match: this rank has " + std::to_string(bytes) + " bytes, rank " +
                    std::to_string(r) + " has " + std::to_string(call.bytes) +
                    (call.bytes == bytes ? " but another call, now or earlier" : "")};
    return;
  }
  if (request_.weight) scales_ = WeightScales({weights.data(), weights.size()});
}

void SliceRun::borrow(int rank, const SliceArea::SliceCall& call) {
  while (borrowed_.size() < static_cast<std::size_t>(x_.size())) borrowed_.push_back(nullptr);
  const std::byte* input = x_.map(rank, {call.arena, call.offset}, call.bytes);
  if (input == nullptr) {
    if (was_left_behind()) return;
    failed_peer_ = {rank};
    failure_ = {Code::kSystem, "memory of the pool of rank " + std::to_string(rank) +
                                   " cannot be mapped here (see ulimit -v and vm.max_map_count)"};
    return;
  }
  borrows_ = true;
  const std::uint64_t block = is(Collective::kReduceScatter) ? static_cast<unsigned>(x_.rank_) : 0;
  borrowed_[static_cast<std::size_t>(rank)] = input + block * count_ * element_;
}

void SliceRun::stage() {
  const ElementSpan s = slice(staged_);
  std::byte* to = slot(x_.rank_, staged_);
  const auto copy = [&](std::uint64_t at, const std::byte* from, std::uint64_t elements) {
    copy_bytes(to + at * element_, from, elements * element_);
  };
  switch (request_.collective) {
    case Collective::kReduceScatter:
      for (int r = 0; r < x_.size(); ++r) {
        const auto block = static_cast<std::size_t>(r);
        if (r != x_.rank_) copy(block * slice_, input(block, s.begin), s.count);
      }
      break;
    case Collective::kBroadcast:
      deliver(output(0, s.begin), input(0, s.begin), s.count);
      [[fallthrough]];
    case Collective::kAllGather: copy(0, input(0, s.begin), s.count); break;
    default: {
      // This rank stages all but its own share, which no other rank needs: the result goes there.
      const ElementSpan own = share(s, x_.rank_);
      const std::uint64_t after = own.begin + own.count;
      copy(0, input(0, s.begin), own.begin);
      copy(after, input(0, s.begin + after), s.count - after);
      break;
    }
  }
  publish(&SliceArea::SliceHalf::staged, ++staged_);
}

// Where a rank's contribution to this rank's share lies.
const std::byte* SliceRun::operand(int rank, const ElementSpan& whole,
                                   std::uint64_t element) const {
  const auto own = static_cast<std::size_t>(x_.rank_);
  if (borrows_) {
    const std::byte* lent = borrowed_[static_cast<std::size_t>(rank)];
    if (lent != nullptr) return lent + (whole.begin + element) * element_;
  }
  if (is(Collective::kReduceScatter)) {
    if (rank == x_.rank_) return input(own, whole.begin + element);
    return slot(rank, reduced_) + (own * slice_ + element) * element_;
  }
  if (rank == x_.rank_) return input(0, whole.begin + element);
  return slot(rank, reduced_) + element * element_;
}

template <class From>
void SliceRun::fold_weighed(const From& from, std::byte* sum, std::uint64_t n) const {
  const auto operand = [&](int rank) { return ScaledOperand{from(rank), scales_.of(rank)}; };
  combine_scaled(kernel_, request_.dtype, sum, operand(0), operand(1), n);
  for (int r = 2; r < x_.size(); ++r) {
    combine_scaled(kernel_, request_.dtype, sum, {sum}, operand(r), n);
  }
  const RankWeighing weighing = scales_.weighing_of(x_.rank_);
  if (weighing.divides()) share_kernel(request_.dtype)(sum, n, weighing.total);
}

// Works on pieces that stay in the first-level cache from their first sum until they are copied to
// the output.
void SliceRun::fold(const ElementSpan& whole, const ElementSpan& own, std::byte* to,
                    std::byte* copy) const {
  const std::uint64_t step = std::max<std::uint64_t>(1, kFoldBytes / element_);
  for (std::uint64_t at = 0; at < own.count; at += step) {
    const std::uint64_t n = std::min(step, own.count - at);
    std::byte* sum = to + at * element_;
    const auto from = [&](int rank) { return operand(rank, whole, own.begin + at); };
    if (request_.weight) {
      fold_weighed(from, sum, n);
      if (copy != nullptr) copy_bytes(copy + at * element_, sum, n * element_);
      continue;
    }
    kernel_(sum, from(0), from(1), n);
    for (int r = 2; r < x_.size(); ++r) kernel_(sum, sum, from(r), n);
    if (divide_ != nullptr) divide_(sum, n, static_cast<std::uint32_t>(x_.size()));
    if (copy != nullptr) copy_bytes(copy + at * element_, sum, n * element_);
  }
}

// Reduces into this rank's own slot, where the others read the result, and copies it to the output.
// The slot comes first even where no rank reads it: the output may be the memory of one of the
// operands.
void SliceRun::reduce() {
  yield_point();
  const ElementSpan s = slice(reduced_);
  const bool scatters = is(Collective::kReduceScatter);
  const ElementSpan own = scatters ? ElementSpan{0, s.count} : share(s, x_.rank_);
  const std::uint64_t place = scatters ? static_cast<std::uint64_t>(x_.rank_) * slice_ : own.begin;
  std::byte* sum = slot(x_.rank_, reduced_) + place * element_;
  std::byte* result = keeps_own() ? output(0, s.begin + own.begin) : nullptr;
  // A result that may turn out to be invalid must not overwrite this rank's input, so it goes to
  // the slot only.
  fold(s, own, sum, borrows_ ? nullptr : result);
  if (was_left_behind()) return;
  if (borrows_ && was_withdrawn()) {
    left_behind_ = true;
    return;
  }
  if (borrows_ && result != nullptr) deliver(result, sum, own.count);
  publish(&SliceArea::SliceHalf::reduced, ++reduced_);
  if (!pulls()) publish(&SliceArea::SliceHalf::pulled, pulled_ = reduced_);
}

void SliceRun::pull() {
  yield_point();
  const ElementSpan s = slice(pulled_);
  if (is(Collective::kBroadcast)) {
    deliver(output(0, s.begin), slot(request_.root.value, pulled_), s.count);
  } else if (is(Collective::kAllGather)) {
    for (int r = 0; r < x_.size(); ++r) {
      const std::byte* from = r == x_.rank_ ? input(0, s.begin) : slot(r, pulled_);
      deliver(output(static_cast<std::size_t>(r), s.begin), from, s.count);
    }
  } else {
    for (int r = 0; r < x_.size(); ++r) {
      if (r == x_.rank_) continue;
      const ElementSpan theirs = share(s, r);
      deliver(output(0, s.begin + theirs.begin), slot(r, pulled_) + theirs.begin * element_,
              theirs.count);
    }
  }
  if (was_left_behind()) return;
  publish(&SliceArea::SliceHalf::pulled, ++pulled_);
}

// Called after a read of others' slots: a member that is two views ahead writes to the same slots.
// This rank is then in neither of those views, and will be told so; its op ends here.
bool SliceRun::was_left_behind() {
  if (is_planted(Planted::kNoLeftBehind)) return false;
  for (int r = 0; r < x_.size(); ++r) {
    if (r != x_.rank_ && !x_.is_still_here(r)) left_behind_ = true;
  }
  return left_behind_;
}

bool SliceRun::has_withdrawn(int rank) const {
  if (!borrows_ || borrowed_[static_cast<std::size_t>(rank)] == nullptr) return false;
  return passed(x_.area(rank).withdrawn, mark());
}

bool SliceRun::was_withdrawn() const {
  if (is_planted(Planted::kNoWithdrawn)) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  for (int r = 0; r < x_.size(); ++r) {
    if (has_withdrawn(r)) return true;
  }
  return false;
}

BufferPool::Buffer SliceRun::stop() {
  if (lends_ && !finished_) take_back(x_.area(x_.rank_).withdrawn, mark());
  finished_ = true;
  return {};
}

std::vector<Rank> SliceRun::waited_for() const {
  std::vector<Rank> ranks;
  if (number_ != x_.ended_) return ranks;
  for (int r = 0; r < x_.size(); ++r) {
    if (r == x_.rank_) continue;
    const SliceArea::SliceHalf& peer = x_.area(r);
    if (!checked_) {
      if (!reached(peer.begun, mark())) ranks.push_back({r});
      continue;
    }
    const std::uint64_t next = x_.next_slice_ + (lends_ ? reduced_ : staged_);
    const bool room = next < x_.next_slice_ + slices_ && next - x_.first_ >= kSliceSlots &&
                      !reached(peer.pulled, next - kSliceSlots + 1);
    const std::uint64_t wanted = std::min(pulled_, slices_ - 1);
    const bool data =
        !reached(peer.staged, through(wanted)) || !reached(peer.reduced, through(wanted));
    if (room || data || has_withdrawn(r)) ranks.push_back({r});
  }
  return ranks;
}

std::vector<Execution::HeldPiece> SliceRun::held() const {
  std::vector<HeldPiece> result;
  if (!begun_) return result;
  const auto add = [&](std::byte* data, std::uint64_t elements) {
    if (elements > 0) result.push_back({data, elements * element_});
  };
  const std::uint64_t whole = std::min(pulled_ * slice_, count_);
  switch (request_.collective) {
    case Collective::kReduceScatter: add(output(0, 0), std::min(reduced_ * slice_, count_)); break;
    case Collective::kAllGather:
      for (std::size_t r = 0; r < request_.output.size(); ++r) add(output(r, 0), whole);
      break;
    case Collective::kBroadcast:
      add(output(0, 0), is_root() ? std::min(staged_ * slice_, count_) : whole);
      break;
    default:
      if (!keeps_own()) break;
      add(output(0, 0), whole);
      for (std::uint64_t i = pulled_; i < reduced_; ++i) {
        const ElementSpan own = share(slice(i), x_.rank_);
        add(output(0, i * slice_ + own.begin), own.count);
      }
  }
  return result;
}

}  // namespace holdfast::comm
