#include "comm/engine/slice_exchange.h"

#include <algorithm>

#include "base/check.h"
#include "comm/call/request_check.h"
#include "comm/engine/host_area.h"
#include "comm/engine/pull_run.h"
#include "comm/engine/slice_run.h"

namespace holdfast::comm {
namespace {

// An input is lent from 1 / kLeastLentShare of a slice on: a smaller one is copied quickly, and its
// owner then need not wait until all ranks have read it.
constexpr std::uint64_t kLeastLentShare = 4;

// Ranks up to which a wake-up for nothing costs less than one that comes late.
constexpr int kFewRanks = 4;

bool all_equal(const BlockList& blocks) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const Block& b) { return b.count == blocks.front().count; });
}

// Whether a slot holds an element of a user operator for each of its blocks.
bool fits_slices(const OpRequest& request, int size) {
  const std::uint64_t blocks =
      has_input_blocks(request.collective) ? static_cast<std::uint64_t>(size) : 1;
  return request.user->element_bytes <= kSliceBytes / blocks;
}

}  // namespace

bool reach_each_other(const std::vector<HostPeer>& peers, Rank self) {
  for (std::size_t r = 0; r < peers.size(); ++r) {
    if (static_cast<int>(r) != self.value && !peers[r].memory) return false;
  }
  return true;
}

SliceExchange::SliceExchange(Rank rank, Epoch epoch, std::vector<HostPeer> peers,
                             std::uint64_t slice_bytes, SliceLane lane, std::uint64_t done)
    : rank_(rank.value),
      peers_(std::move(peers)),
      reaches_(reach_each_other(peers_, rank)),
      lane_(static_cast<std::size_t>(lane)),
      half_(epoch.value % 2),
      slice_bytes_(slice_bytes),
      first_(first_count(epoch) + done),
      next_slice_(first_) {
  CHECK(slice_bytes > 0 && slice_bytes <= kSliceBytes);
  // A rank may still read this half for the view before last: its reads must fail from here on.
  take_back(area(rank_).begun, first_);
  take_back(area(rank_).withdrawn, first_);
}

SliceArea::SliceHalf& SliceExchange::area(int rank) const {
  const HostPeer& peer = peers_[static_cast<std::size_t>(rank)];
  return reinterpret_cast<HostArea*>(peer.area())->slices[lane_].halves[half_];
}

PoolDirectory& SliceExchange::directory(int rank) const {
  return reinterpret_cast<HostArea*>(peers_[static_cast<std::size_t>(rank)].area())->pool;
}

PoolPlace SliceExchange::find_in_pool(const std::byte* data, std::uint64_t bytes) const {
  const auto& pool = peers_[static_cast<std::size_t>(rank_)].own_pool;
  return pool ? pool->find(data, bytes, directory(rank_)) : PoolPlace{};
}

PoolPlace SliceExchange::place_of(const OpRequest& request) const {
  if (!reduces(request.collective) || !peers_[static_cast<std::size_t>(rank_)].own_pool) return {};
  const std::uint64_t element = request.element_bytes();
  const Block& first = request.input[0];
  for (std::size_t i = 1; i < request.input.size(); ++i) {
    if (request.input[i].data != first.data + i * first.count * element) return {};
  }
  const std::uint64_t bytes = request.input.size() * first.count * element;
  return bytes < slice_bytes_ / kLeastLentShare ? PoolPlace{} : find_in_pool(first.data, bytes);
}

const std::byte* SliceExchange::map(int rank, const PoolPlace& place, std::uint64_t bytes) const {
  const auto& pool = peers_[static_cast<std::size_t>(rank)].pool;
  return pool ? pool->at(directory(rank), place, bytes) : nullptr;
}

bool SliceExchange::all_at(std::atomic<std::uint64_t> SliceArea::SliceHalf::*counter,
                           std::uint64_t value) const {
  for (int r = 0; r < size(); ++r) {
    if (r != rank_ && !reached(area(r).*counter, value)) return false;
  }
  return true;
}

void SliceExchange::ring_all() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int r = 0; r < size(); ++r) {
    if (r != rank_) peers_[static_cast<std::size_t>(r)].ring_published();
  }
}

void SliceExchange::ring_if_last(std::atomic<std::uint64_t> SliceArea::SliceHalf::*counter,
                                 std::uint64_t before) {
  // A small op ends sooner than a sleeper wakes up, so all ranks are woken at once.
  const bool is_small = lane_ == static_cast<std::size_t>(SliceLane::kSmall);
  if (is_small || size() <= kFewRanks) return ring_all();
  // Of the ranks that publish at the same time, the one whose fence is last sees the counts of all.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  int behind = -1;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_ || reached(area(r).*counter, before + 1)) continue;
    if (behind >= 0) return;
    behind = r;
  }
  for (int r = 0; r < size(); ++r) {
    // The rank that is itself behind may wait for all others.
    if (r != rank_ && (behind < 0 || r == behind)) {
      peers_[static_cast<std::size_t>(r)].ring_published();
    }
  }
}

// Records that this rank has ended an op that took `slices` slices.
void SliceExchange::end_op(std::uint64_t number, std::uint64_t slices) {
  ++ended_;
  next_slice_ += slices;
  area(rank_).ended.store(mark(number), std::memory_order_release);
  ring_if_last(&SliceArea::SliceHalf::ended, mark(number) - 1);
}

bool SliceExchange::exposes(Collective collective, int size, bool reaches) {
  return reaches && size <= kMostPullers && PullRun::moves(collective);
}

bool SliceExchange::carries(const OpRequest& request, int size, bool reaches) {
  if (size < 2 || request.codec) return false;
  if (exposes(request.collective, size, reaches)) return true;
  if (request.user != nullptr && !fits_slices(request, size)) return false;
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: return request.input[0].count > 0;
    case Collective::kBroadcast: return request.output[0].count > 0;
    case Collective::kAllGather: return all_equal(request.output) && request.output[0].count > 0;
    case Collective::kReduceScatter: return all_equal(request.input) && request.input[0].count > 0;
    default: return false;  // not every rank knows the others' sizes
  }
}

// The wait for all ranks to end an op, in which they may still read this one's memory.
class SliceRound final : public Execution {
 public:
  SliceRound(const SliceExchange& exchange, std::uint64_t mark) : x_(exchange), mark_(mark) {}
  ~SliceRound() override { stop(); }

  void advance() override { finished_ = finished_ || touched(); }
  bool touched() const override { return x_.all_at(&SliceArea::SliceHalf::ended, mark_); }
  bool finished() const override { return finished_; }
  const Status& failure() const override { return ok_; }
  Rank failed_peer() const override { return {-1}; }
  std::vector<Rank> waited_for() const override {
    std::vector<Rank> ranks;
    for (int r = 0; r < x_.size(); ++r) {
      const bool ended = reached(x_.area(r).ended, mark_);
      if (r != x_.rank_ && !ended) ranks.push_back({r});
    }
    return ranks;
  }
  std::vector<HeldPiece> held() const override { return {}; }
  BufferPool::Buffer stop() override {
    if (!finished_) take_back(x_.area(x_.rank_).withdrawn, mark_);
    finished_ = true;
    return {};
  }

 private:
  const SliceExchange& x_;
  const std::uint64_t mark_;
  const Status ok_;
  bool finished_ = false;
};

std::unique_ptr<Execution> SliceExchange::make_round() {
  return std::unique_ptr<Execution>(new (*recycler_) SliceRound(*this, mark(ended_ - 1)));
}

std::unique_ptr<Execution> SliceExchange::start(const OpRequest& request, std::uint32_t signature) {
  const std::uint64_t number = started_++;
  Execution* run = nullptr;
  if (exposes(request)) {
    run = new (*recycler_) PullRun(*this, request, signature, number);
  } else {
    run = new (*recycler_) SliceRun(*this, request, signature, number);
  }
  return std::unique_ptr<Execution>(run);
}

}  // namespace holdfast::comm
