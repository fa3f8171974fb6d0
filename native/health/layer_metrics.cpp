#include "health/layer_metrics.h"

#include <algorithm>

#include "health/families.h"

namespace holdfast::health {

using metrics::TextEncoder;

void LayerMetrics::add_sync(const Sync& sync) {
  const std::lock_guard lock(mutex_);
  sync_.sent += sync.sent;
  sync_.received += sync.received;
  sync_.ended += sync.ended;
  sync_.seconds += std::max(0.0, sync.seconds);
}

void LayerMetrics::add_saving(std::string_view name, const Saving& saving) {
  const std::lock_guard lock(mutex_);
  Saving& all = method(name).saving;
  all.raw += saving.raw;
  all.wire += saving.wire;
}

void LayerMetrics::set_residual_norm(std::string_view name, double norm) {
  const std::lock_guard lock(mutex_);
  method(name).residual_norm = norm;
}

// The caller holds mutex_.
LayerMetrics::Method& LayerMetrics::method(std::string_view name) {
  const bool full = methods_.size() >= kMostMethods;
  for (const std::string_view wanted : {name, std::string_view("other")}) {
    const auto known = std::find_if(methods_.begin(), methods_.end(),
                                    [&](const Method& m) { return m.name == wanted; });
    if (known != methods_.end()) return *known;
    if (!full) break;
  }
  return methods_.emplace_back(Method{full ? "other" : std::string(name), {}});
}

void LayerMetrics::write(TextEncoder& out, Instant now) const {
  const std::lock_guard lock(mutex_);
  out.family(family::kSyncBytes);
  out.sample({{"direction", "sent"}}, sync_.sent);
  out.sample({{"direction", "received"}}, sync_.received);
  out.family(family::kSyncs);
  out.sample({}, sync_.ended);
  out.family(family::kSyncTime);
  out.sample({}, sync_.seconds);
  out.family(family::kReducerRaw);
  for (const Method& m : methods_) out.sample({{"method", m.name}}, m.saving.raw);
  out.family(family::kReducerWire);
  for (const Method& m : methods_) out.sample({{"method", m.name}}, m.saving.wire);
  out.family(family::kReducerNorm);
  for (const Method& m : methods_) {
    if (m.residual_norm >= 0) out.sample({{"method", m.name}}, m.residual_norm);
  }
  state_.write(out, now);
}

}  // namespace holdfast::health
