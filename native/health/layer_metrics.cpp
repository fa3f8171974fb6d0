#include "health/layer_metrics.h"

#include <algorithm>

namespace holdfast::health {
namespace {

using metrics::Family;
using metrics::TextEncoder;
using metrics::Type;

constexpr Family kSyncBytes{"holdfast_sync_bytes", Type::kCounter, "bytes",
                            "Bytes of states that ranks gave each other to be the same."};
constexpr Family kSyncs{"holdfast_syncs", Type::kCounter, "", "Syncs that ended well."};
constexpr Family kSyncTime{"holdfast_sync_seconds", Type::kCounter, "seconds",
                           "Time that callers spent in syncs."};
constexpr Family kRaw{"holdfast_reducer_raw_bytes", Type::kCounter, "bytes",
                      "What this rank would have sent to average the gradients as they are."};
constexpr Family kWire{"holdfast_reducer_wire_bytes", Type::kCounter, "bytes",
                       "What it sent instead, before any codec."};
constexpr Family kNorm{"holdfast_reducer_residual_norm", Type::kGauge, "",
                       "L2 norm of what the method has left out so far, as last looked at."};

}  // namespace

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

void LayerMetrics::write(TextEncoder& out) const {
  const std::lock_guard lock(mutex_);
  out.family(kSyncBytes);
  out.sample({{"direction", "sent"}}, sync_.sent);
  out.sample({{"direction", "received"}}, sync_.received);
  out.family(kSyncs);
  out.sample({}, sync_.ended);
  out.family(kSyncTime);
  out.sample({}, sync_.seconds);
  out.family(kRaw);
  for (const Method& m : methods_) out.sample({{"method", m.name}}, m.saving.raw);
  out.family(kWire);
  for (const Method& m : methods_) out.sample({{"method", m.name}}, m.saving.wire);
  out.family(kNorm);
  for (const Method& m : methods_) {
    if (m.residual_norm >= 0) out.sample({{"method", m.name}}, m.residual_norm);
  }
}

}  // namespace holdfast::health
