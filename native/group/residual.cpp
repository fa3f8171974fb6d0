// What becomes of the residual of an op with error feedback. The rule: a residual is committed with
// its op, once, and only where what it says was left out has been left out. An op that fails leaves
// the caller's as it was; so does every part that the survivors of a loss exchanged uncoded, for
// there the input counted as it is, and the old residual is still owed; and so does what was sent
// to a rank that has gone, whose part of the result nobody has.
// Why: docs/decisions/0053-a-repair-is-not-encoded.md
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/planted.h"
#include "group/group.h"
#include "group/schedule.h"

namespace holdfast::ft {
namespace {

using comm::Collective;
using comm::OpRequest;

// Whether this rank encodes the input block at all.
bool is_encoded(const OpRequest& request, std::size_t block, Rank self) {
  if (request.collective == Collective::kBroadcast) return request.root == self;
  return request.collective != Collective::kAllToAll ||
         block != static_cast<std::size_t>(self.value);
}

// A look at a residual reads all of it. It is worth a thousandth of the time, and one a second.
constexpr Duration kLookPause = std::chrono::seconds(1);
constexpr int kLookShare = 1000;

// In lanes of its own for each, so that the additions need not wait for one another.
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

// For a run from the start, in the current view: by the input blocks that the view has.
std::vector<float*> Group::begin_feedback(Op& op) {
  const OpRequest& request = op.work->request();
  if (request.residual.empty()) return {};
  std::uint64_t count = 0;
  for (const comm::Block& block : request.input) count += block.count;
  Feedback& feedback = op.feedback;
  feedback.uncoded.clear();
  if (feedback.memory.capacity == 0) feedback.memory = feedback_pool_.take(count * sizeof(float));
  std::vector<float*> blocks;
  auto* at = reinterpret_cast<float*>(feedback.memory.data());
  for (std::size_t b = 0; b < request.input.size(); ++b) {
    const Rank receiver{static_cast<std::int32_t>(b)};
    const bool there = std::find(present_.begin(), present_.end(), receiver) != present_.end();
    if (there || !has_input_blocks(request.collective)) blocks.push_back(at);
    at += request.input[b].count;
  }
  return blocks;
}

// What the repair that is about to begin takes from the inputs as they are.
void Group::note_uncoded(Op& op) const {
  if (op.work->request().residual.empty() || is_planted(Planted::kSpendUncoded)) return;
  for (const Reduction& r : op.fate->reductions) op.feedback.uncoded[r.block].add(r.range);
  for (const Transfer& t : op.fate->transfers) {
    if (t.from_input && t.from == config_.rank) op.feedback.uncoded[t.source].add(t.range);
  }
}

void Group::end_feedback(Op& op, bool well) {
  Feedback& feedback = op.feedback;
  if (feedback.memory.capacity == 0) return;
  const OpRequest& request = op.work->request();
  const auto* from = reinterpret_cast<const float*>(feedback.memory.data());
  for (std::size_t b = 0; b < request.input.size(); ++b) {
    const std::uint64_t count = request.input[b].count;
    const Rank receiver{static_cast<std::int32_t>(b)};
    const bool there = std::find(present_.begin(), present_.end(), receiver) != present_.end();
    const bool arrived = there || !has_input_blocks(request.collective);
    if (well && arrived && is_encoded(request, b, config_.rank)) {
      for (const Range& encoded :
           feedback.uncoded[static_cast<std::uint32_t>(b)].complement().runs()) {
        const std::uint64_t end = std::min(encoded.end, count);
        if (encoded.begin >= end) continue;
        std::memcpy(request.residual[b] + encoded.begin, from + encoded.begin,
                    (end - encoded.begin) * sizeof(float));
      }
    }
    from += count;
  }
  feedback_pool_.give(std::move(feedback.memory));
  if (well) observe_residual(request);
}

void Group::observe_residual(const OpRequest& request) {
  if (observer_ == nullptr) return;
  const Instant now = clock_->now();
  if (now < next_residual_look_) return;
  double sum = 0;
  for (std::size_t b = 0; b < request.input.size(); ++b) {
    if (!is_encoded(request, b, config_.rank)) continue;
    sum += squares(request.residual[b], request.input[b].count);
  }
  observer_->on_residual_left(request.codec->spec().id, sum);
  const Instant seen = clock_->now();
  next_residual_look_ = seen + std::max(kLookPause, (seen - now) * kLookShare);
}

}  // namespace holdfast::ft
