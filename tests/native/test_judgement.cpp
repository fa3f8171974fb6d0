// What becomes of an op, by how it stands here and what the others say of it.
#include "group/judgement.h"

#include <doctest/doctest.h>

#include <string>

namespace holdfast::ft {
namespace {

using comm::Collective;
using Where = group::OpStanding::Where;

constexpr group::LossRules kContinue{3, false};
constexpr group::LossRules kRaise{3, true};
const group::OpReport kComplete{{4}, true, false, {1}, {}};
const group::OpReport kFlat{{4}, true, true, {1}, {}};
const group::OpReport kNothing{{4}, false, false, {}, {}};

// Rank 2 of three is lost from view 1; the others report.
group::Incident loss(std::optional<group::OpReport> zero, std::optional<group::OpReport> one) {
  return {{2}, {{0}, {1}, {2}}, {{0}, {1}}, {std::move(zero), std::move(one)}, false};
}

group::Incident settled() {
  group::Incident incident = loss(kNothing, std::nullopt);
  incident.settled = true;
  return incident;
}

group::OpFate at_start() { return group::fate_at_start({{0}, {1}, {2}}, 3, {1}); }

struct Case {
  const char* what;
  group::OpStanding standing;
  group::Incident incident;
  group::Verdict verdict;
  group::LossRules rules = kContinue;
};

TEST_CASE("what a member does with an op") {
  const group::OpFate fate = at_start();
  const group::OpStanding not_called{};
  const group::OpStanding under_way{Where::kUnderWay, false, &fate};
  const group::OpStanding complete{Where::kUnderWay, true, &fate};
  const group::OpStanding flat{Where::kEndedFlat};
  const group::OpStanding kept{Where::kKept, true, &fate};
  const Case cases[] = {
      {"others have called it", not_called, loss(kNothing, std::nullopt),
       group::Verdict::kRemember},
      {"others are done with it", not_called, settled(), group::Verdict::kForget},
      {"nobody holds anything", under_way, loss(kNothing, kNothing), group::Verdict::kBegin},
      {"another holds it", under_way, loss(kNothing, kComplete), group::Verdict::kBegin},
      {"another ended it on the flat exchange", under_way, loss(kNothing, kFlat),
       group::Verdict::kFinishFlat},
      {"all hold it", complete, loss(kComplete, kComplete), group::Verdict::kEndNoted},
      {"it is here, and others are done with it", complete, settled(), group::Verdict::kEnd},
      {"it is not here, and others are done with it", under_way, settled(), group::Verdict::kBegin},
      {"it ended on the flat exchange", flat, loss(kFlat, kNothing), group::Verdict::kNote},
      {"it ended there, and others are done with it", flat, settled(), group::Verdict::kForget},
      {"it is kept, and another lacks it", kept, loss(kComplete, kNothing), group::Verdict::kServe},
      {"it is kept, and nobody lacks it", kept, loss(kComplete, kComplete), group::Verdict::kNote},
      {"it is kept, and others are done with it", kept, settled(), group::Verdict::kForget},
      {"losses raise, and nobody holds it", under_way, loss(kNothing, kNothing),
       group::Verdict::kBegin, kRaise},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const group::RepairQuestion question{Collective::kAllReduce, {}, false, false};
    CHECK(judge(c.standing, question, c.rules, c.incident).verdict == c.verdict);
  }
}

TEST_CASE("a fate follows the loss: afresh, from a holder, or not at all") {
  const group::OpFate fate = at_start();
  const group::OpStanding under_way{Where::kUnderWay, false, &fate};
  const group::RepairQuestion sum{Collective::kAllReduce, {}, false, false};
  const auto fresh = judge(under_way, sum, kContinue, loss(kNothing, kNothing)).fate;
  REQUIRE(fresh);
  CHECK(fresh->fresh);
  CHECK(fresh->contributors == std::vector<Rank>{{0}, {1}});
  CHECK(fresh->missing == std::vector<Rank>{{2}});
  const auto served = judge(under_way, sum, kContinue, loss(kNothing, kComplete)).fate;
  REQUIRE(served);
  CHECK(served->planned);
  CHECK(served->contributors.size() == 3);
  CHECK(judge(under_way, sum, kRaise, loss(kNothing, kNothing)).fate->lost);
  CHECK_FALSE(judge(under_way, sum, kRaise, loss(kNothing, kComplete)).fate->lost);
  CHECK(judge(under_way, sum, kContinue, settled()).fate->lost);
}

TEST_CASE("an op of which nothing is known began among the members of the view that ended") {
  const group::OpFate unknown;
  const group::OpStanding standing{Where::kUnderWay, false, &unknown};
  const group::RepairQuestion sum{Collective::kAllReduce, {}, false, false};
  const auto fate = judge(standing, sum, kContinue, loss(kNothing, kComplete)).fate;
  REQUIRE(fate);
  CHECK(fate->contributors == std::vector<Rank>{{0}, {1}, {2}});
  CHECK(fate->epoch == Epoch{1});
}

TEST_CASE("an op that is called late has gone through every view since others called it") {
  const std::vector<std::shared_ptr<group::Incident>> views{
      std::make_shared<group::Incident>(loss(std::nullopt, kNothing)),
      std::make_shared<group::Incident>(
          group::Incident{{3}, {{0}, {1}}, {{0}}, {std::nullopt}, false})};
  const group::OpFate fate =
      group::fate_through(views, {Collective::kAllReduce, {}, false, false}, kContinue);
  CHECK(fate.contributors == std::vector<Rank>{{0}});
  CHECK(fate.missing == std::vector<Rank>{{1}, {2}});
  CHECK(fate.epoch == Epoch{3});
}

TEST_CASE("reports are gathered by op, and silence of one who called it settles it") {
  group::GroupReport zero;
  zero.next_sequence = 6;
  zero.ops = {kNothing};
  group::GroupReport one;
  one.next_sequence = 4;
  const group::Incident blank{{2}, {{0}, {1}, {2}}, {{0}, {1}}, {}, false};
  std::map<Rank, const group::GroupReport*> by_rank{{Rank{0}, &zero}, {Rank{1}, &one}};
  group::Incidents incidents = group::incidents_of(blank, by_rank);
  REQUIRE(incidents.size() == 1);
  CHECK(incidents.at(4)->reports ==
        std::vector<std::optional<group::OpReport>>{kNothing, std::nullopt});
  // It has not called the op yet,
  CHECK_FALSE(incidents.at(4)->settled);
  one.next_sequence = 5;
  // and now it has, and has forgotten it.
  CHECK(group::incidents_of(blank, by_rank).at(4)->settled);
}

TEST_CASE("an op is refused without its root, or once a loss has broken the step") {
  comm::OpRequest request;
  request.collective = Collective::kBroadcast;
  request.root = {2};
  group::OpFate fate = at_start();
  const std::vector<Rank> all{{0}, {1}, {2}};
  const std::vector<Rank> survivors{{0}, {1}};
  CHECK_FALSE(refusal(request, fate, all, Status::ok(), {2}));
  const auto vacant = refusal(request, fate, survivors, Status::ok(), {2});
  REQUIRE(vacant);
  CHECK(vacant->code() == Code::kPeerLost);
  CHECK(vacant->ranks() == std::vector<Rank>{{2}});
  const Status broken(Code::kPeerLost, "a member was lost");
  const auto step = refusal(request, fate, all, broken, {2});
  REQUIRE(step);
  CHECK(step->message() == broken.message());
  // What somebody holds is brought to all, even so.
  fate.planned = true;
  CHECK_FALSE(refusal(request, fate, survivors, broken, {2}));
}

TEST_CASE("a hole is an error of gathered results alone, unless zeros were asked for") {
  comm::OpRequest request;
  request.collective = Collective::kAllGather;
  group::OpFate fate = at_start();
  CHECK(group::look_for_hole(request, fate, comm::OnHole::kRaise).is_ok());
  fate.missing = {{2}};
  const Status hole = group::look_for_hole(request, fate, comm::OnHole::kRaise);
  CHECK(hole.code() == Code::kPeerLost);
  CHECK(hole.ranks() == std::vector<Rank>{{2}});
  CHECK(group::look_for_hole(request, fate, comm::OnHole::kZero).is_ok());
  request.on_hole = comm::OnHole::kZero;
  CHECK(group::look_for_hole(request, fate, comm::OnHole::kRaise).is_ok());
  request.on_hole = {};
  request.collective = Collective::kAllReduce;
  CHECK(group::look_for_hole(request, fate, comm::OnHole::kRaise).is_ok());
}

}  // namespace
}  // namespace holdfast::ft
