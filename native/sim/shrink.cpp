// Shrinking: a violation's scenario, made as small as it stays one (Zeller, Hildebrandt 2002, in
// its simplest form: one thing less at a time).
#include <algorithm>

#include "sim/simulation.h"

namespace holdfast::sim {

Scenario shrink(const Scenario& scenario) {
  Scenario best = scenario;
  const auto fails = [](const Scenario& s) { return !simulate(s).ok(); };
  const auto attempt = [&](Scenario next) {
    if (next == best || !fails(next)) return false;
    best = std::move(next);
    return true;
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t i = best.faults.size(); i-- > 0;) {
      Scenario next = best;
      next.faults.erase(next.faults.begin() + static_cast<std::ptrdiff_t>(i));
      smaller = attempt(std::move(next)) || smaller;
    }
    Scenario next = best;
    --next.steps;
    if (next.steps > 0) smaller = attempt(next) || smaller;
    next = best;
    next.elements /= 2;
    smaller = attempt(next) || smaller;
    next = best;
    --next.ranks;
    const bool named = std::any_of(next.faults.begin(), next.faults.end(), [&](const Fault& f) {
      return f.a >= next.ranks || f.b >= next.ranks;
    });
    if (next.ranks > 1 && !named) smaller = attempt(next) || smaller;
    for (bool Scenario::*flag : {&Scenario::flat, &Scenario::two_links, &Scenario::raise}) {
      next = best;
      next.*flag = false;
      smaller = attempt(next) || smaller;
    }
  }
  return best;
}

}  // namespace holdfast::sim
