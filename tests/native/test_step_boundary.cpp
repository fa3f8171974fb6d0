// What a member does at a step boundary, by how the vote went.
#include "group/parts/step_boundary.h"

#include <doctest/doctest.h>

#include "group_parts.h"

namespace holdfast::ft {
namespace {

using Next = group::StepBoundary::Next;
using testing::make_work;

constexpr Instant kLate = Instant{} + std::chrono::hours(2);

std::shared_ptr<comm::OpWork> begin(group::StepBoundary& boundary, std::uint64_t lobby) {
  group::StepBoundary::PendingBoundary step;
  step.lobby = std::make_unique<std::uint64_t>(0);
  step.work = make_work(group::StepBoundary::call(std::chrono::seconds(1)), 3);
  step.vote = make_work(group::StepBoundary::vote(*step.lobby, std::chrono::seconds(1)), 3);
  step.deadline = kLate;
  const auto vote = step.vote;
  boundary.begin(std::move(step), lobby);
  return vote;
}

struct Case {
  const char* what;
  Code vote;
  group::StepBoundary::Facts facts;
  Next next;
};

TEST_CASE("the world is asked only where somebody waits, or where a loss is to be mended") {
  const Case cases[] = {
      {"nobody waits", Code::kOk, {true, false, 5}, Next::kPass},
      {"somebody waits", Code::kOk, {true, false, 4}, Next::kAdmit},
      {"a subgroup", Code::kOk, {false, false, 4}, Next::kPass},
      {"a loss, and nothing is broken", Code::kPeerLost, {true, false, 4}, Next::kFail},
      {"a loss that broke the step", Code::kPeerLost, {true, true, 5}, Next::kAdmit},
      {"a loss that broke a subgroup's step", Code::kPeerLost, {false, true, 5}, Next::kFail},
      {"a timeout", Code::kTimeout, {true, true, 4}, Next::kFail},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    group::StepBoundary boundary;
    begin(boundary, 5);
    const Status vote = c.vote == Code::kOk ? Status::ok() : Status(c.vote, "why");
    CHECK(boundary.after_vote(vote, c.facts) == c.next);
  }
}

TEST_CASE("the vote reduces the version of the lobby that this member has seen") {
  group::StepBoundary boundary;
  const auto vote = begin(boundary, 5);
  CHECK(*reinterpret_cast<const std::uint64_t*>(vote->request().input[0].data) == 5);
  CHECK(boundary.is_vote(vote));
  CHECK_FALSE(boundary.is_vote(make_work({}, 3)));
}

TEST_CASE("a boundary is late only when its vote, which has a deadline, is over") {
  group::StepBoundary boundary;
  CHECK(boundary.next_deadline() == Instant{Duration::max()});
  const auto vote = begin(boundary, 5);
  CHECK(boundary.next_deadline() == kLate);
  CHECK_FALSE(boundary.is_late(kLate));
  vote->settle(Status::ok());
  vote->end();
  CHECK(boundary.is_late(kLate));
  CHECK(boundary.take().vote == vote);
  CHECK_FALSE(boundary.is_under_way());
  CHECK_FALSE(boundary.is_vote(vote));
}

TEST_CASE("hosts are numbered anew without those that have gone") {
  const group::HostNumbers kept = group::keep_hosts_of({{1}, {3}, {4}}, {0, 1, 1, 2, 1, -1});
  CHECK(kept.by_rank == std::vector<int>{-1, 0, -1, 1, 0, -1});
  CHECK(kept.count == 2);
}

}  // namespace
}  // namespace holdfast::ft
