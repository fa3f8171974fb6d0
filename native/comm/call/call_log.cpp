#include "comm/call/call_log.h"

#include <algorithm>

namespace holdfast::comm {

std::optional<Disagreement> CallLog::record(const Call& call) {
  if (own_.size() < kCallsKept) {
    own_.push_back(call);
  } else {
    own_[first_] = call;
    first_ = (first_ + 1) % kCallsKept;
  }
  history_ = next_history_;
  next_history_ = history_after(history_, call);
  for (std::size_t r = 0; r < heard_.size(); ++r) {
    auto& calls = heard_[r];
    const auto found = std::find_if(calls.begin(), calls.end(), [&](const Call& heard) {
      return heard.sequence == call.sequence;
    });
    if (found == calls.end()) continue;
    const bool differs = conflict(*found, call);
    calls.erase(found);
    if (differs) return Disagreement{{static_cast<int>(r)}, call.sequence};
  }
  return std::nullopt;
}

std::optional<Disagreement> CallLog::hear(Rank from, const Call& call) {
  if (const Call* own = find(call.sequence)) {
    if (!conflict(*own, call)) return std::nullopt;
    return Disagreement{from, call.sequence};
  }
  const bool past = !own_.empty() && call.sequence.value <= latest().sequence.value;
  auto& calls = heard_[static_cast<std::size_t>(from.value)];
  if (!past && calls.size() < kHeardKept) calls.push_back(call);
  return std::nullopt;
}

CallReport CallLog::report(OpSeq sequence) const {
  CallReport report{sequence, {}};
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const Call& call = own(i);
    const bool is_latest = call.sequence == latest().sequence;
    const bool wanted = call.sequence.value <= sequence.value &&
                        call.sequence.value + kReportedCalls - 1 > sequence.value;
    if (wanted || is_latest) report.calls.push_back(call);
  }
  return report;
}

const Call* CallLog::find(OpSeq sequence) const {
  for (std::size_t i = own_.size(); i-- > 0;) {
    if (own(i).sequence == sequence) return &own(i);
  }
  return nullptr;
}

}  // namespace holdfast::comm
