// Layer metrics: what the layers above the core report: syncs of states over all ranks, bytes that
// compression methods saved on gradients, and snapshots. Layers report a few times per step, not
// per element, so a mutex is cheap enough.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics/text.h"
#include "health/state/state_metrics.h"

namespace holdfast::health {

// Every method is for any thread.
class LayerMetrics {
 public:
  // Ten methods are built in; methods of a program beyond this limit are counted as one "other".
  static constexpr std::size_t kMostMethods = 16;

  // Counts of a part of a sync, or of a whole one.
  struct Sync {
    std::uint64_t sent = 0;  // bytes of the state
    std::uint64_t received = 0;
    std::uint64_t ended = 0;  // syncs
    double seconds = 0;
  };
  void add_sync(const Sync& sync);

  // Bytes that this rank would have sent uncompressed (raw), and that it sent (wire).
  struct Saving {
    std::uint64_t raw = 0;
    std::uint64_t wire = 0;
  };
  void add_saving(std::string_view method, const Saving& saving);
  void set_residual_norm(std::string_view method, double norm);

  StateMetrics& state() { return state_; }
  const StateMetrics& state() const { return state_; }

  void write(metrics::TextEncoder& out, Instant now) const;

 private:
  struct Method {
    std::string name;
    Saving saving;
    double residual_norm = -1;  // negative: not reported
  };
  Method& method(std::string_view name);

  mutable std::mutex mutex_;  // guards sync_ and methods_
  Sync sync_;
  std::vector<Method> methods_;  // in the order of their first report
  StateMetrics state_;           // has its own lock
};

}  // namespace holdfast::health
