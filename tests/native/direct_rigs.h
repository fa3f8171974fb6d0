// Ranks whose devices map each other's memory, each a process's own to the driver.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "comm/plan/path_agreement.h"
#include "device/kernel.h"
#include "rigs.h"

namespace holdfast::testing {

// Devices that can do it, and no op is too small.
inline Setup direct_setup(std::function<void(int, Options&, device::EmulatedSettings&)> more = {}) {
  Setup setup;
  setup.adjust = [more](int r, Options& options, device::EmulatedSettings& settings) {
    options.cuda_ipc_min_bytes = 1;
    settings.exports = true;
    settings.kernels = device::kernels();
    if (more) more(r, options, settings);
  };
  return setup;
}

// How many ops of this node went by a path.
inline int ops_by(const Member& member, const std::string& path) {
  const std::string text = member.node->metrics_text(false);
  const std::string label = "path=\"" + path + "\"} ";
  int count = 0;
  for (std::size_t at = 0; (at = text.find(label, at)) != std::string::npos;) {
    at += label.size();
    const std::size_t line = text.rfind('\n', at) + 1;
    const bool counts_ops = text.compare(line, 19, "holdfast_ops_total{") == 0;
    if (counts_ops) count += std::stoi(text.substr(at));
  }
  return count;
}

// Past the calls that do not wait for the trial.
inline std::string pass_trial(Rig& rig, Member& member) {
  const Array one(rig, {1});
  for (std::uint32_t i = 0; i < comm::kTrialCalls; ++i) {
    std::string error =
        run(rig, member, request_of(Collective::kAllReduce, {one.block()}, {one.block()}));
    if (!error.empty()) return error;
  }
  return "";
}

// Small whole numbers, of which sums are exact in any order.
inline std::vector<float> numbers(std::size_t count, int seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed) * 13) % 101);
  }
  return values;
}

inline std::vector<float> sum_of(std::size_t count, int ranks) {
  std::vector<float> sum(count, 0);
  for (int r = 0; r < ranks; ++r) {
    const std::vector<float> one = numbers(count, r);
    for (std::size_t i = 0; i < count; ++i) sum[i] += one[i];
  }
  return sum;
}

}  // namespace holdfast::testing
