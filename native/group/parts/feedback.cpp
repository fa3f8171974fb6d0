#include "group/parts/feedback.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/planted.h"

namespace holdfast::group {
namespace {

using comm::Collective;
using comm::OpRequest;

// Whether this rank encodes the input block at all.
bool is_encoded(const OpRequest& request, std::size_t block, Rank self) {
  if (request.collective == Collective::kBroadcast) return request.root == self;
  return request.collective != Collective::kAllToAll ||
         block != static_cast<std::size_t>(self.value);
}

// Whether the input block is for all ranks, or for a rank that is present.
bool has_receiver(const OpRequest& request, std::size_t block, const std::vector<Rank>& present) {
  const Rank receiver{static_cast<std::int32_t>(block)};
  return !has_input_blocks(request.collective) ||
         std::find(present.begin(), present.end(), receiver) != present.end();
}

// Observing a residual reads all of it. It may take a thousandth of the time, once a second at
// most.
constexpr Duration kLookPause = std::chrono::seconds(1);
constexpr int kLookShare = 1000;

// The sum of squares, in independent lanes, so that the additions need not wait for one another.
double squares(const float* values, std::uint64_t count) {
  constexpr std::uint64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(values[i]) * values[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

std::vector<float*> Feedback::begin(Residual& residual, const OpRequest& request,
                                    const std::vector<Rank>& present) {
  if (request.residual.empty()) return {};
  std::uint64_t count = 0;
  for (const comm::Block& block : request.input) count += block.count;
  residual.uncoded.clear();
  if (residual.memory.capacity == 0) residual.memory = pool_.take(count * sizeof(float));
  std::vector<float*> blocks;
  auto* at = reinterpret_cast<float*>(residual.memory.data());
  for (std::size_t b = 0; b < request.input.size(); ++b) {
    if (has_receiver(request, b, present)) blocks.push_back(at);
    at += request.input[b].count;
  }
  return blocks;
}

void Feedback::note_uncoded(Residual& residual, const OpRequest& request,
                            const OpFate& fate) const {
  if (request.residual.empty() || is_planted(Planted::kSpendUncoded)) return;
  for (const Reduction& r : fate.reductions) residual.uncoded[r.block].add(r.range);
  for (const Transfer& t : fate.transfers) {
    if (t.from_input && t.from == self_) residual.uncoded[t.source].add(t.range);
  }
}

void Feedback::end(Residual& residual, const OpRequest& request, const std::vector<Rank>& present,
                   bool well) {
  if (residual.memory.capacity == 0) return;
  const auto* from = reinterpret_cast<const float*>(residual.memory.data());
  for (std::size_t b = 0; b < request.input.size(); ++b) {
    const std::uint64_t count = request.input[b].count;
    if (well && has_receiver(request, b, present) && is_encoded(request, b, self_)) {
      for (const ft::Range& encoded :
           residual.uncoded[static_cast<std::uint32_t>(b)].complement().runs()) {
        const std::uint64_t end = std::min(encoded.end, count);
        if (encoded.begin >= end) continue;
        std::memcpy(request.residual[b] + encoded.begin, from + encoded.begin,
                    (end - encoded.begin) * sizeof(float));
      }
    }
    from += count;
  }
  pool_.give(std::move(residual.memory));
  if (well) observe(request);
}

void Feedback::observe(const OpRequest& request) {
  if (observer_ == nullptr) return;
  const Instant now = clock_->now();
  if (now < next_look_) return;
  double sum = 0;
  for (std::size_t b = 0; b < request.input.size(); ++b) {
    if (!is_encoded(request, b, self_)) continue;
    sum += squares(request.residual[b], request.input[b].count);
  }
  observer_->on_residual_left(request.codec->spec().id, sum);
  const Instant seen = clock_->now();
  next_look_ = seen + std::max(kLookPause, (seen - now) * kLookShare);
}

}  // namespace holdfast::group
