// Layer metrics: what the layers above the core tell of themselves: states that were made the same
// on all ranks, and what methods of compression made of gradients. Told a few times per step, not
// per element: under a mutex.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics/text.h"

namespace holdfast::runtime {

// Every method is for any thread.
class LayerMetrics {
 public:
  // There are ten; whatever a program adds beyond these is one "other".
  static constexpr std::size_t kMostMethods = 16;

  // Part of a sync, or all of one.
  struct Sync {
    std::uint64_t sent = 0;  // bytes of the state
    std::uint64_t received = 0;
    std::uint64_t ended = 0;  // syncs
    double seconds = 0;
  };
  void add_sync(const Sync& sync);

  // Bytes that this rank would have sent, and did.
  struct Saving {
    std::uint64_t raw = 0;
    std::uint64_t wire = 0;
  };
  void add_saving(std::string_view method, const Saving& saving);
  void set_residual_norm(std::string_view method, double norm);

  void write(metrics::TextEncoder& out) const;

 private:
  struct Method {
    std::string name;
    Saving saving;
    double residual_norm = -1;  // negative: not told
  };
  Method& method(std::string_view name);

  mutable std::mutex mutex_;  // guards the rest
  Sync sync_;
  std::vector<Method> methods_;  // in the order in which they were first told of
};

}  // namespace holdfast::runtime
