#include "group/parts/kept_results.h"

#include <algorithm>
#include <cstring>

namespace holdfast::group {
namespace {

using comm::Collective;

// Ops of the flat exchange that one member may have ended before another: it has two slots.
constexpr std::size_t kFlatEnds = 2;

}  // namespace

void KeptResults::keep(const comm::OpWork& work, const Fate& fate, Rank self) {
  comm::OpRequest request = work.request();
  request.step.replicated = nullptr;  // what is left to deliver goes to other members
  request.how.gate = nullptr;
  const std::uint64_t element = request.element_bytes();
  std::uint64_t bytes = 0;
  for (const comm::Block& block : request.output) bytes += block.count * element;
  Kept& kept = kept_[work.sequence().value];
  kept.fate = fate;
  kept.completed_in = kept.fate->epoch;
  kept.memory = pool_.take(bytes);
  std::byte* at = kept.memory.data();
  for (comm::Block& block : request.output) {
    if (block.count > 0) std::memcpy(at, block.data, block.count * element);
    block.data = at;
    at += block.count * element;
  }
  // No member may ask for an input any more: a holder of the result serves the result.
  if (request.collective == Collective::kAllGather) {
    request.input[0] = request.output[static_cast<std::size_t>(self.value)];
  } else if (!request.input.empty()) {
    request.input[0] = request.output[0];
  }
  kept.request = std::move(request);
}

void KeptResults::note_flat_end(const comm::Call& call, Epoch epoch) {
  if (flat_ends_.size() == kFlatEnds) flat_ends_.erase(flat_ends_.begin());
  flat_ends_.push_back({call, epoch});
}

void KeptResults::on_stable(OpSeq through) {
  const auto end = kept_.upper_bound(through.value);
  for (auto at = kept_.begin(); at != end; at = kept_.erase(at)) {
    pool_.give(std::move(at->second.memory));
  }
}

void KeptResults::clear() {
  kept_.clear();
  flat_ends_.clear();
}

KeptResults::Kept* KeptResults::find(OpSeq sequence) {
  const auto at = kept_.find(sequence.value);
  return at == kept_.end() ? nullptr : &at->second;
}

const comm::Call* KeptResults::flat_end(OpSeq sequence) const {
  const auto at = std::find_if(flat_ends_.begin(), flat_ends_.end(),
                               [&](const FlatEnd& end) { return end.call.sequence == sequence; });
  return at == flat_ends_.end() ? nullptr : &at->call;
}

std::optional<OpSeq> KeptResults::first() const {
  if (kept_.empty()) return std::nullopt;
  return OpSeq{kept_.begin()->first};
}

std::optional<OpSeq> KeptResults::oldest() const {
  std::optional<OpSeq> oldest = first();
  for (const FlatEnd& end : flat_ends_) {
    oldest = oldest ? std::min(*oldest, end.call.sequence) : end.call.sequence;
  }
  return oldest;
}

void KeptResults::report(std::vector<OpReport>& ops) const {
  for (const FlatEnd& end : flat_ends_) {
    ops.push_back({end.call.sequence, true, true, end.epoch, {}});
  }
  for (const auto& [sequence, kept] : kept_) {
    ops.push_back({{sequence}, true, false, kept.completed_in, {}});
  }
}

}  // namespace holdfast::group
