// Shrinking: the scenario of a violation, made as small as possible while it stays one (Zeller,
// Hildebrandt 2002, in its simplest form: one thing less at a time).
#include <algorithm>

#include "sim/simulation.h"

namespace holdfast::sim {

namespace {

// The scenario without this fault and those that wait for it.
Scenario without_fault(Scenario scenario, std::size_t index) {
  const auto gone = static_cast<int>(index);
  scenario.faults.erase(scenario.faults.begin() + static_cast<std::ptrdiff_t>(index));
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    Trigger& t = scenario.faults[i].trigger;
    if (t.when != When::kFault || t.what < gone) continue;
    if (t.what == gone) return without_fault(std::move(scenario), i);
    --t.what;
  }
  return scenario;
}

}  // namespace

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
      smaller = attempt(without_fault(best, i)) || smaller;
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
    for (bool Scenario::*flag : {&Scenario::flat, &Scenario::two_links, &Scenario::raise,
                                 &Scenario::subgroup, &Scenario::two_worlds}) {
      next = best;
      next.*flag = false;
      smaller = attempt(next) || smaller;
    }
  }
  return best;
}

}  // namespace holdfast::sim
