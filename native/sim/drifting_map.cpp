#include "sim/drifting_map.h"

#include <array>

#include "sim/random.h"

namespace holdfast::sim {

std::optional<MapOfStep> map_of_step(const Scenario& scenario, int step, int ranks, int ops) {
  Random random(scenario.seed * 1000 + static_cast<std::uint64_t>(step) + 14);
  if (!scenario.maps || ranks < 2 || ops == 0 || !random.chance(60)) return std::nullopt;
  static constexpr std::array kRates = {"1", "0.2", "0.025"};
  std::string rows;
  for (int from = 0; from < ranks; ++from) {
    rows += from == 0 ? "[" : ", [";
    for (int to = 0; to < ranks; ++to) {
      rows += to == 0 ? "" : ", ";
      rows += from == to ? "0" : kRates.at(random.below(kRates.size()));
    }
    rows += "]";
  }
  const std::string latency = random.chance(50) ? "20" : "10000";
  return MapOfStep{static_cast<int>(random.below(static_cast<std::uint64_t>(ops))),
                   std::make_shared<const std::string>(
                       R"({"format": 1, "ranks": )" + std::to_string(ranks) + R"(, "alpha_us": )" +
                       latency + R"(, "gbit_per_s": [)" + rows + "]}")};
}

}  // namespace holdfast::sim
