#include "health/state/state_metrics.h"

#include <algorithm>

#include "health/json.h"
#include "health/state/state_families.h"

namespace holdfast::health {
namespace {

using metrics::TextEncoder;

constexpr std::array<std::string_view, 4> kSources{"replica", "keeper", "decoded", "storage"};
constexpr std::array<std::string_view, 2> kReached{"committed", "flushed"};

bool is_plain(char c) { return c >= 0x20 && c < 0x7f; }

// Reasons come from errors, with anything in them; a label and a page take plain text.
std::string plain(std::string_view text) {
  std::string found(text.substr(0, kMostReason));
  std::replace_if(
      found.begin(), found.end(), [](char c) { return !is_plain(c); }, '?');
  return found;
}

std::int64_t milliseconds(Duration d) {
  return std::max<std::int64_t>(0,
                                std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

}  // namespace

void encode_state(Writer& w, const StateSummary& state) {
  w.number(std::uint8_t{state.known});
  for (const std::int64_t n : {state.step, state.age_ms, state.exposed_ms}) w.number(n);
  w.text(state.why);
}

bool parse_state(Reader& r, StateSummary& state) {
  state.known = r.flag();
  for (auto* n : {&state.step, &state.age_ms, &state.exposed_ms}) *n = r.number<std::int64_t>();
  state.why = r.text(kMostReason);
  return state.step >= -1 && state.age_ms >= 0 && state.exposed_ms >= 0 &&
         std::all_of(state.why.begin(), state.why.end(), is_plain);
}

void write_state(const StateSummary& state, Duration since, JsonWriter& out) {
  if (!state.known) return;
  const auto aged = [since](std::int64_t ms) {
    return static_cast<double>(ms + milliseconds(since)) / 1e3;
  };
  out.open("state_kept", '{');
  if (state.step < 0) {
    out.nothing("step");
    out.nothing("age_s");
  } else {
    out.number("step", static_cast<std::uint64_t>(state.step));
    out.number("age_s", aged(state.age_ms));
  }
  out.text("unprotected", state.why);
  if (state.why.empty()) {
    out.nothing("unprotected_s");
  } else {
    out.number("unprotected_s", aged(state.exposed_ms));
  }
  out.close('}');
}

void StateMetrics::add(const StateCounts& counts) {
  const std::lock_guard lock(mutex_);
  counts_.stalled += std::max(0.0, counts.stalled);
  counts_.captured += counts.captured;
  counts_.sent += counts.sent;
  counts_.flushed += counts.flushed;
  counts_.damaged += counts.damaged;
}

void StateMetrics::add_restore(std::string_view source) {
  const std::lock_guard lock(mutex_);
  if (std::find(kSources.begin(), kSources.end(), source) == kSources.end()) return;
  ++restores_[std::string(source)];
}

void StateMetrics::reach(Reached what, std::int64_t step, Instant taken) {
  const std::lock_guard lock(mutex_);
  known_ = true;
  newest_[static_cast<std::size_t>(what)] = {std::max<std::int64_t>(-1, step), taken};
}

void StateMetrics::set_exposed(std::string_view why, Instant since) {
  const std::lock_guard lock(mutex_);
  known_ = true;
  why_ = plain(why);
  exposed_since_ = since;
}

void StateMetrics::end() {
  const std::lock_guard lock(mutex_);
  known_ = false;
  newest_ = {};
  why_.clear();
}

void StateMetrics::write(TextEncoder& out, Instant now) const {
  const std::lock_guard lock(mutex_);
  out.family(family::kStateAge);
  for (std::size_t i = 0; i < newest_.size(); ++i) {
    const Duration age = std::max(Duration::zero(), now - newest_[i].taken);
    if (newest_[i].step >= 0) out.sample({{"state", kReached[i]}}, age);
  }
  out.family(family::kStateStep);
  for (std::size_t i = 0; i < newest_.size(); ++i) {
    const auto step = static_cast<std::uint64_t>(newest_[i].step);
    if (newest_[i].step >= 0) out.sample({{"state", kReached[i]}}, step);
  }
  out.family(family::kStateStall);
  out.sample({}, counts_.stalled);
  out.family(family::kStateBytes);
  out.sample({{"what", "captured"}}, counts_.captured);
  out.sample({{"what", "sent"}}, counts_.sent);
  out.sample({{"what", "flushed"}}, counts_.flushed);
  out.family(family::kStateRestores);
  for (const std::string_view source : kSources) {
    const auto at = restores_.find(source);
    out.sample({{"source", source}}, at == restores_.end() ? std::uint64_t{0} : at->second);
  }
  out.family(family::kStateDamaged);
  out.sample({}, counts_.damaged);
  out.family(family::kStateProtected);
  if (known_) out.sample({}, std::uint64_t{why_.empty()});
  out.family(family::kStateUnprotected);
  if (known_ && !why_.empty()) {
    out.sample({{"why", why_}}, std::max(Duration::zero(), now - exposed_since_));
  }
}

StateSummary StateMetrics::summary(Instant now) const {
  const std::lock_guard lock(mutex_);
  StateSummary found;
  if (!known_) return found;
  const Newest& committed = newest_[static_cast<std::size_t>(Reached::kCommitted)];
  found.known = true;
  found.step = committed.step;
  found.age_ms = committed.step < 0 ? 0 : milliseconds(now - committed.taken);
  found.why = why_;
  found.exposed_ms = why_.empty() ? 0 : milliseconds(now - exposed_since_);
  return found;
}

}  // namespace holdfast::health
