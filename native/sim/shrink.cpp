// Shrinking: the scenario of a violation, made as small as possible while it stays one (Zeller,
// Hildebrandt 2002, in its simplest form: one thing less at a time).
#include <algorithm>
#include <vector>

#include "sim/simulation.h"

namespace holdfast::sim {

Scenario without_fault(const Scenario& scenario, std::size_t index) {
  const std::vector<Fault>& faults = scenario.faults;
  const auto waits_for = [](const Fault& fault) {
    return fault.trigger.when == When::kFault ? fault.trigger.what : -1;
  };
  std::vector<bool> goes(faults.size());
  goes.at(index) = true;
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < faults.size(); ++i) {
      const int other = waits_for(faults[i]);
      if (goes[i] || other < 0 || !goes.at(static_cast<std::size_t>(other))) continue;
      goes[i] = more = true;
    }
  }
  Scenario rest = scenario;
  rest.faults.clear();
  for (std::size_t i = 0; i < faults.size(); ++i) {
    if (goes[i]) continue;
    rest.faults.push_back(faults[i]);
    const int other = waits_for(faults[i]);
    if (other < 0) continue;
    const auto before = std::count(goes.begin(), goes.begin() + other, true);
    rest.faults.back().trigger.what -= static_cast<int>(before);
  }
  return rest;
}

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
    // Several faults may go at once.
    for (std::size_t i = best.faults.size(); i-- > 0; i = std::min(i, best.faults.size())) {
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
    for (bool Scenario::*flag :
         {&Scenario::flat, &Scenario::two_links, &Scenario::raise, &Scenario::subgroup,
          &Scenario::two_worlds, &Scenario::slow_store}) {
      next = best;
      next.*flag = false;
      smaller = attempt(next) || smaller;
    }
  }
  return best;
}

}  // namespace holdfast::sim
