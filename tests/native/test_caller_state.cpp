// What callers and the driving thread share: numbers, who may call what, and which map is taken.
#include "group/parts/caller_state.h"

#include <doctest/doctest.h>

#include "comm/view/fabrics.h"
#include "ft/message.h"
#include "group/parts/map_history.h"
#include "group_parts.h"

namespace holdfast::ft {
namespace {

using Boundary = group::CallerState::Boundary;

std::optional<std::uint64_t> call(group::CallerState& state, comm::Collective collective,
                                  bool at_entrance = false) {
  comm::OpRequest request;
  request.collective = collective;
  request.how.at_entrance = at_entrance;
  std::optional<std::uint64_t> got;
  const Status status = state.call(request, "job", [&](OpSeq number) { got = number.value; });
  CHECK(status.is_ok() == got.has_value());
  return got;
}

Boundary call_boundary(group::CallerState& state) {
  Boundary got{};
  state.call_boundary([&](Boundary how, OpSeq) { got = how; });
  return got;
}

TEST_CASE("collectives and messages are counted apart") {
  group::CallerState state({{1}, {MemberId{1}}}, 7, false);
  CHECK(call(state, comm::Collective::kBarrier) == 7U);
  CHECK(call(state, comm::Collective::kSend) == 0U);
  CHECK(call(state, comm::Collective::kAllReduce) == 8U);
  CHECK(call(state, comm::Collective::kRecv) == 1U);
}

TEST_CASE("nothing is called while advance() is under way, which has one number") {
  group::CallerState state({{1}, {MemberId{1}}}, 0, false);
  CHECK(call_boundary(state) == Boundary::kVote);
  CHECK(call_boundary(state) == Boundary::kTwice);
  CHECK_FALSE(call(state, comm::Collective::kBarrier));
  state.end_boundary();
  CHECK(call(state, comm::Collective::kBarrier) == 1U);
}

TEST_CASE("a newcomer's first boundary is its entrance, if it has called nothing else before") {
  group::CallerState first({{1}, {MemberId{1}}}, 0, true);
  CHECK(call(first, comm::Collective::kBarrier, true) == 0U);
  CHECK(first.is_newcomer());
  CHECK(call_boundary(first) == Boundary::kEntrance);
  CHECK(call_boundary(first) == Boundary::kVote);
  group::CallerState other({{1}, {MemberId{1}}}, 0, true);
  CHECK(call(other, comm::Collective::kBarrier) == 0U);
  CHECK(call_boundary(other) == Boundary::kVote);
}

TEST_CASE("a map is taken between two calls, and counted") {
  group::CallerState state({{1}, {MemberId{1}}}, 5, false);
  const auto text = std::make_shared<const std::string>("the map");
  std::optional<OpSeq> first;
  const auto note = [&](OpSeq op, const comm::TakenMap&) { first = op; };
  CHECK(call(state, comm::Collective::kBarrier) == 5U);
  CHECK(state.take_map(nullptr, text, "job", note).is_ok());
  CHECK(first == OpSeq{6});
  CHECK(state.map().version == 1);
  CHECK(state.map().text == text);
  CHECK(state.take_map(nullptr, text, "job", note).is_ok());
  CHECK(state.map().version == 2);
  CHECK(call(state, comm::Collective::kBarrier) == 6U);
  CHECK(state.close());
  CHECK(state.take_map(nullptr, text, "job", note).code() == Code::kNotMember);
  CHECK(state.map().version == 2);
}

TEST_CASE("maps stay as long as ops of their time may run") {
  const auto taken = [](std::uint32_t version) {
    return comm::TakenMap{nullptr, nullptr, version};
  };
  group::MapHistory history(taken(0));
  history.take({5}, taken(1), {3});
  CHECK(history.all().size() == 2);
  history.take({9}, taken(2), {4});  // op 4 still goes by the first
  CHECK(history.all().size() == 3);
  CHECK(history.latest().version == 2);
  history.take({12}, taken(3), {9});
  REQUIRE(history.all().size() == 2);
  CHECK(history.all()[0].taken.version == 2);
  CHECK(history.all()[1].from == OpSeq{12});
}

TEST_CASE("an op's fabric is the last one that began at it or before") {
  comm::Fabrics fabrics(topology::Fabric{}, 0);
  fabrics.add({5}, topology::Fabric{}, 1);
  fabrics.add({9}, topology::Fabric{}, 2);
  CHECK(fabrics.version_of({0}) == 0);
  CHECK(fabrics.version_of({4}) == 0);
  CHECK(fabrics.version_of({5}) == 1);
  CHECK(fabrics.version_of({8}) == 1);
  CHECK(fabrics.version_of({100}) == 2);
  CHECK(&fabrics.of({9}) == &fabrics.latest());
}

TEST_CASE("an inline op has no number where anything is unusual") {
  testing::AtOnce executor;
  group::CallerState state({{1}, {MemberId{1}}}, 3, false);
  CHECK(state.call_inline(executor) == OpSeq{3});
  executor.tasks = true;
  CHECK_FALSE(state.call_inline(executor));
  executor.tasks = false;
  CHECK(state.end({Code::kAborted, "first"}));
  CHECK_FALSE(state.end({Code::kTimeout, "second"}));
  CHECK(state.health().code() == Code::kAborted);
  CHECK_FALSE(state.call_inline(executor));
}

TEST_CASE("a closed group takes no calls, and closes once") {
  group::CallerState state({{1}, {MemberId{1}}}, 0, false);
  CHECK(state.close());
  CHECK_FALSE(state.close());
  CHECK_FALSE(call(state, comm::Collective::kBarrier));
  CHECK(call_boundary(state) == Boundary::kClosed);
}

TEST_CASE("counts that differ meet at the highest") {
  group::CallerState state({{1}, {MemberId{1}}}, 4, false);
  state.meet_at(2);
  CHECK(call(state, comm::Collective::kBarrier) == 4U);
  state.meet_at(9);
  CHECK(call(state, comm::Collective::kBarrier) == 9U);
}

TEST_CASE("a placement is that of the last boundary, without those who have gone since") {
  group::CallerState state({{1}, {MemberId{1}, MemberId{2}, MemberId{3}}}, 0, false);
  state.set_placement({0, 1, 1}, 2, true, {1});
  state.set_view({{2}, {kNobody, MemberId{2}, MemberId{3}}});
  CHECK(state.placement() == comm::Placement{3, 2, true});
  CHECK(state.live_ranks() == std::vector<Rank>{{1}, {2}});
  state.keep_placement_of({{1}, {2}});
  CHECK(state.placement() == comm::Placement{3, 1, true});
  CHECK(state.hosts() == std::vector<int>{-1, 0, 0});
  CHECK(state.boundary() == Epoch{1});
}

}  // namespace
}  // namespace holdfast::ft
