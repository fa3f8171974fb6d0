// The verifier beside one that is as simple as can be: on all that the catalogue builds, and on
// schedules that were broken at random, both say the same. Dependencies are those of all pairs.
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "comm/algorithms/catalogue.h"
#include "comm/schedule/verifier.h"
#include "plain_verifier.h"
#include "sanitized.h"

namespace holdfast::comm {
namespace {

using Random = std::mt19937_64;

std::uint32_t below(Random& random, std::size_t limit) {
  return static_cast<std::uint32_t>(random() % limit);
}

std::vector<Schedule> built_by(const AlgorithmRow& row, int size, int root) {
  std::vector<Schedule> schedules;
  for (int r = 0; r < size; ++r) {
    schedules.push_back(row.build({row.collective, {r}, size, {root}}));
  }
  return schedules;
}

Slot random_slot(Random& random, const Schedule& s) {
  const auto space = static_cast<Space>(below(random, 3));
  const std::size_t chunks = space == Space::kScratch ? s.scratch.size() : s.chunks;
  return {space, below(random, chunks + (below(random, 20) == 0 ? 1 : 0) + (chunks == 0 ? 1 : 0))};
}

void break_a_step(Random& random, Schedule& s) {
  if (s.steps.empty()) return;
  const std::uint32_t i = below(random, s.steps.size());
  Step& step = s.steps[i];
  switch (below(random, 10)) {
    case 0: step.deps.clear(); break;
    case 1:
      if (!step.deps.empty()) step.deps.pop_back();
      break;
    case 2:
      if (i > 0) step.deps.push_back({below(random, i), false});
      break;
    case 3: step.dst = random_slot(random, s); break;
    case 4: step.lhs = random_slot(random, s); break;
    case 5: step.rhs = random_slot(random, s); break;
    case 6: step.final = !step.final; break;
    case 7: step.ordinal = below(random, 4); break;
    case 8: step.kind = static_cast<StepKind>(below(random, 6)); break;
    default: std::swap(step, s.steps[below(random, s.steps.size())]);
  }
}

TEST_CASE("both verifiers say the same of schedules that were broken at random") {
  Random random(7);
  int sound = 0;
  int broken = 0;
  const int rounds = holdfast::testing::kSanitized ? 4 : 40;
  for (const AlgorithmRow& row : catalogue()) {
    CAPTURE(row.algorithm);
    CAPTURE(collective_name(row.collective));
    for (int round = 0; round < rounds; ++round) {
      const int n = 2 + static_cast<int>(below(random, 5));
      CAPTURE(n);
      CAPTURE(round);
      std::vector<Schedule> schedules = built_by(row, n, 0);
      // The first one is left whole.
      const int breaks = round == 0 ? 0 : 1 + static_cast<int>(below(random, 2));
      for (int i = 0; i < breaks; ++i)
        break_a_step(random, schedules[below(random, schedules.size())]);
      const Status plain = testing::plain_verify(schedules);
      const Status status = verify(schedules);
      REQUIRE_MESSAGE(status.is_ok() == plain.is_ok(), status.message(), " / ", plain.message());
      ++(status.is_ok() ? sound : broken);
    }
  }
  CHECK(sound > 10 * rounds);
  CHECK(broken > 10 * rounds);
}

bool touch_alike(const Step& a, const Step& b, bool in_place) {
  const auto reads_of = [&](const Step& step, const Slot& slot) {
    if (!reads(step)) return false;
    return may_alias(step.lhs, slot, in_place) ||
           (step.kind == StepKind::kReduce && may_alias(step.rhs, slot, in_place));
  };
  return (writes(a) && (reads_of(b, a.dst) || (writes(b) && may_alias(a.dst, b.dst, in_place)))) ||
         (writes(b) && reads_of(a, b.dst));
}

TEST_CASE("a step depends on all earlier ones that touch what it touches, and on no other") {
  for (const AlgorithmRow& row : catalogue()) {
    CAPTURE(row.algorithm);
    const bool in_place = may_be_in_place(row.collective);
    for (const Schedule& s : built_by(row, 6, 1)) {
      for (std::uint32_t i = 0; i < s.steps.size(); ++i) {
        std::vector<std::uint32_t> expected;
        for (std::uint32_t j = 0; j < i; ++j) {
          if (touch_alike(s.steps[j], s.steps[i], in_place)) expected.push_back(j);
        }
        std::vector<std::uint32_t> found;
        for (const Dependency& d : s.steps[i].deps) found.push_back(d.step);
        REQUIRE(found == expected);
      }
      CHECK(find_fusions(s) == testing::plain_fusions(s));
    }
  }
}

}  // namespace
}  // namespace holdfast::comm
