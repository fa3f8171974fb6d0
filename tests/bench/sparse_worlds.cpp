// A world of many ranks in the simulator, on virtual time: it begins, runs the ops of its program,
// loses ranks and ends, with all of the simulator's checks. Prints a line of JSON. By hand.
//
//   sparse_worlds RANKS LOSSES
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "sim/simulation.h"

int main(int count, char** words) {
  using namespace holdfast::sim;
  Scenario scenario;
  scenario.seed = 1;
  scenario.ranks = count > 1 ? std::atoi(words[1]) : 100;
  scenario.steps = 4;
  scenario.elements = 8;
  scenario.sparse = true;
  const int losses = count > 2 ? std::atoi(words[2]) : 3;
  for (int i = 0; i < losses; ++i) {
    Fault crash{FaultKind::kCrash, std::chrono::milliseconds(2 * i), {}, 0, 0, {}};
    crash.a = i * (scenario.ranks / losses);
    scenario.faults.push_back(crash);
  }
  const auto before = std::chrono::steady_clock::now();
  const RunVerdict verdict = simulate(scenario);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
  std::printf(
      "{\"name\": \"sparse_worlds\", \"ranks\": %d, \"losses\": %d, \"events\": %llu, \"ops\": "
      "%llu, "
      "\"virtual_ms\": %.0f, \"took_s\": %.1f, \"violation\": \"%s\"}\n",
      scenario.ranks, losses, static_cast<unsigned long long>(verdict.events),
      static_cast<unsigned long long>(verdict.ops),
      std::chrono::duration<double, std::milli>(verdict.took).count(), took.count(),
      verdict.violation.c_str());
  return verdict.violation.empty() ? 0 : 1;
}
