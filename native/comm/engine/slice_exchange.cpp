#include "comm/engine/slice_exchange.h"

#include <algorithm>

#include "base/check.h"
#include "comm/engine/host_area.h"
#include "comm/engine/slice_run.h"

namespace holdfast::comm {
namespace {

bool all_equal(const std::vector<Block>& blocks) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const Block& b) { return b.count == blocks.front().count; });
}

}  // namespace

SliceExchange::SliceExchange(Rank rank, Epoch epoch, std::vector<HostPeer> peers,
                             std::uint64_t slice_bytes)
    : rank_(rank.value),
      peers_(std::move(peers)),
      half_(epoch.value % 2),
      slice_bytes_(slice_bytes),
      first_(std::uint64_t{epoch.value} << 32),
      next_slice_(first_) {
  CHECK(slice_bytes > 0 && slice_bytes <= kSliceBytes);
}

SliceArea::Half& SliceExchange::area(int rank) const {
  const auto& segment = peers_[static_cast<std::size_t>(rank)].segment;
  return reinterpret_cast<HostArea*>(segment->data())->slices.halves[half_];
}

bool SliceExchange::all_at(std::atomic<std::uint64_t> SliceArea::Half::*counter,
                           std::uint64_t value) const {
  for (int r = 0; r < size(); ++r) {
    // acquire: what the counter stands for
    if (r != rank_ && (area(r).*counter).load(std::memory_order_acquire) < value) return false;
  }
  return true;
}

void SliceExchange::ring_all() {
  for (int r = 0; r < size(); ++r) {
    if (r != rank_) peers_[static_cast<std::size_t>(r)].ring();
  }
}

bool SliceExchange::carries(const OpRequest& request, int size) {
  if (size < 2) return false;
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: return request.input[0].count > 0;
    case Collective::kBroadcast: return request.output[0].count > 0;
    case Collective::kAllGather: return all_equal(request.output) && request.output[0].count > 0;
    case Collective::kReduceScatter: return all_equal(request.input) && request.input[0].count > 0;
    default: return false;  // not every rank knows the others' sizes
  }
}

// The wait for all to hold what they need; they say so as they pull.
class SliceRound final : public Execution {
 public:
  SliceRound(const SliceExchange& exchange, std::uint64_t end) : x_(exchange), end_(end) {}

  void advance() override { finished_ = finished_ || touched(); }
  bool touched() const override { return x_.all_at(&SliceArea::Half::pulled, end_); }
  bool finished() const override { return finished_; }
  const Status& failure() const override { return ok_; }
  Rank failed_peer() const override { return {-1}; }
  std::vector<Rank> waited_for() const override {
    std::vector<Rank> ranks;
    for (int r = 0; r < x_.size(); ++r) {
      const bool holds = x_.area(r).pulled.load(std::memory_order_acquire) >= end_;
      if (r != x_.rank_ && !holds) ranks.push_back({r});
    }
    return ranks;
  }
  std::vector<Held> held() const override { return {}; }
  BufferPool::Buffer stop() override { return {}; }

 private:
  const SliceExchange& x_;
  const std::uint64_t end_;
  const Status ok_;
  bool finished_ = false;
};

std::unique_ptr<Execution> SliceExchange::make_round() {
  return std::make_unique<SliceRound>(*this, next_slice_);
}

std::unique_ptr<Execution> SliceExchange::start(const OpRequest& request, std::uint32_t signature) {
  return std::make_unique<SliceRun>(*this, request, signature, started_++);
}

}  // namespace holdfast::comm
