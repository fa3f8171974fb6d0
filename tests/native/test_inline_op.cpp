// An inline op, step by step, on a group that is told what to say.
#include "group/parts/inline_op.h"

#include <doctest/doctest.h>

#include "group_parts.h"

namespace holdfast::ft {
namespace {

struct FakeHost {
  bool calm = true;
  group::InlineShape shape = group::InlineShape::kUsual;
  bool numbered = true;
  int looks = 0;  // until the op has ended
  int begun = 0;
  int launched = 0;
  int settling = 0;
  int gone_on = 0;

  bool is_settling(const comm::OpRequest&) { return settling-- > 0; }
  bool can_begin_inline(const comm::OpRequest&) const { return calm; }
  group::InlineShape inline_shape(const comm::OpRequest&) const { return shape; }
  std::optional<OpSeq> number_inline() { return numbered ? std::optional(OpSeq{8}) : std::nullopt; }
  void begin_inline(const comm::OpRequest&, OpSeq, group::InlineShape, comm::OpTicket& ticket) {
    ticket.number = 5;
    ++begun;
  }
  bool has_ended_inline() { return looks-- == 0; }
  std::shared_ptr<const comm::Outcome> end_inline(comm::OpTicket& ticket) {
    CHECK(ticket.number == 5);
    return std::make_shared<const comm::Outcome>();
  }
  std::shared_ptr<comm::Work> launch_inline(comm::OpRequest& request, OpSeq number) {
    ++launched;
    return testing::make_work(std::move(request), number.value);
  }
  std::shared_ptr<comm::Work> go_on_inline(comm::OpRequest& request, OpSeq number,
                                           const comm::OpTicket& ticket) {
    CHECK(ticket.number == 5);
    ++gone_on;
    return testing::make_work(std::move(request), number.value);
  }
  bool look_inline(OpSeq number) {
    CHECK(number == OpSeq{8});
    return looks-- == 0;
  }
};

TEST_CASE("an op that ends within the looks has an outcome, and no work") {
  FakeHost host;
  host.looks = 2;
  comm::OpRequest request;
  group::InlineOp<FakeHost> op(host, request);
  CHECK_FALSE(op.step(false));
  CHECK_FALSE(op.step(false));
  CHECK(op.step(false));
  CHECK(op.has_begun());
  const comm::Ran ran = op.take();
  CHECK(ran.work == nullptr);
  CHECK(ran.outcome != nullptr);
  CHECK(host.begun == 1);
}

TEST_CASE("an op that outlasts the looks goes on with a work of its own") {
  FakeHost host;
  host.looks = 100;
  comm::OpRequest request;
  group::InlineOp<FakeHost> op(host, request);
  CHECK_FALSE(op.step(false));
  CHECK_FALSE(op.step(true));
  const comm::Ran ran = op.take();
  CHECK(ran.work != nullptr);
  CHECK(ran.outcome == nullptr);
  CHECK(host.gone_on == 1);
}

TEST_CASE("an op waits for who is about to come, as long as there are looks") {
  FakeHost host;
  host.settling = 2;
  comm::OpRequest request;
  group::InlineOp<FakeHost> op(host, request);
  CHECK_FALSE(op.step(false));
  CHECK_FALSE(op.step(false));
  CHECK(host.begun == 0);
  CHECK(op.step(false));
  CHECK(host.begun == 1);
  // On the last look it takes the long way, where it would have to wait.
  host.settling = 100;
  host.calm = false;
  group::InlineOp<FakeHost> late(host, request);
  CHECK_FALSE(late.step(false));
  CHECK(late.step(true));
  CHECK_FALSE(late.has_begun());
}

TEST_CASE("what slices carry has a work from the start, and may end within the looks") {
  FakeHost host;
  host.shape = group::InlineShape::kSliced;
  host.looks = 1;
  comm::OpRequest request;
  group::InlineOp<FakeHost> op(host, request);
  CHECK_FALSE(op.step(false));
  CHECK(op.step(false));
  CHECK(op.take().work != nullptr);
  CHECK(host.launched == 1);
  CHECK(host.begun == 0);
}

TEST_CASE("what is unusual takes the long way, and nothing has begun") {
  FakeHost unusual;
  unusual.calm = false;
  FakeHost refused;
  refused.shape = group::InlineShape::kNone;
  FakeHost overtaken;
  overtaken.numbered = false;
  for (FakeHost* host : {&unusual, &refused, &overtaken}) {
    comm::OpRequest request;
    group::InlineOp<FakeHost> op(*host, request);
    CHECK(op.step(false));
    CHECK_FALSE(op.has_begun());
    CHECK(host->begun + host->launched + host->gone_on == 0);
  }
}

}  // namespace
}  // namespace holdfast::ft
