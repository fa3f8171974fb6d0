// Fates that most ops of a view share, and how ops are named to people.
#include "group/parts/fates.h"

#include <doctest/doctest.h>

#include "group/parts/op_text.h"
#include "group_parts.h"

namespace holdfast::ft {
namespace {

group::Roster two_of_three() {
  group::Roster roster{Rank{0}, Epoch{1}, {}, {}};
  roster.take({2}, {MemberId{1}, MemberId{}, MemberId{3}}, {{0}, {1}, {2}});
  return roster;
}

TEST_CASE("all ops of a view to which nothing happens share one fate and one outcome") {
  group::Fates fates;
  group::Roster roster = two_of_three();
  const group::Fate first = fates.usual(roster);
  CHECK(fates.usual(roster) == first);
  CHECK(fates.outcome_of(first) == fates.outcome_of(first));
  CHECK(fates.outcome_of(first)->contributors == std::vector<Rank>{{0}, {2}});
  CHECK(fates.outcome_of(first)->missing == std::vector<Rank>{{1}});
  roster.epoch = {3};
  CHECK(fates.usual(roster) != first);
  CHECK(fates.outcome_of(first)->epoch == Epoch{2});
  CHECK(fates.unknown()->contributors.empty());
}

TEST_CASE("a failure says which op of which group failed, when, and who was lost") {
  comm::OpRequest request;
  request.collective = comm::Collective::kBarrier;
  const auto work = testing::make_work(request, 4);
  CHECK(group::op_text(*work, "job") == "barrier #4 of group job");
  const Status cause = Status(Code::kPeerLost, "killed").about({{1}}, {2});
  const Status said = describe(*work, cause, "job", two_of_three(), {2});
  CHECK(said.message() ==
        "barrier #4 of group job (epoch 2, rank 0 of 3) failed: lost rank 1: killed");
  CHECK(said.ranks() == std::vector<Rank>{{1}});
}

}  // namespace
}  // namespace holdfast::ft
