// The line of ops at their gates: what may begin, in which order, and until when it is waited for.
#include "group/parts/gate_queue.h"

#include <doctest/doctest.h>

#include "group_parts.h"

namespace holdfast::ft {
namespace {

using std::chrono::milliseconds;
using testing::make_work;

constexpr Instant kNow = Instant{} + std::chrono::hours(1);
constexpr Instant kLate = kNow + std::chrono::seconds(1);

struct SetGate final : comm::Gate {
  std::optional<Status> look() override { return state; }
  void fill(comm::OpRequest& request) override { request.tag = 7; }
  std::optional<Status> state;
};

comm::OpRequest gated(std::shared_ptr<comm::Gate> gate) {
  comm::OpRequest request;
  request.timeout = std::chrono::seconds(1);
  request.how.gate = std::move(gate);
  return request;
}

TEST_CASE("only what has a gate, or comes behind one, is held") {
  group::GateQueue line;
  CHECK_FALSE(line.holds(*make_work({}, 0)));
  const auto gate = std::make_shared<SetGate>();
  CHECK(line.holds(*make_work(gated(gate), 0)));
  line.push({make_work(gated(gate), 0), kLate});
  CHECK(line.holds(*make_work({}, 1)));
}

TEST_CASE("ops pass in call order, and none before a closed gate is open") {
  group::GateQueue line;
  const auto gate = std::make_shared<SetGate>();
  line.push({make_work(gated(gate), 0), kLate});
  line.push({make_work({}, 1), kLate});
  CHECK_FALSE(line.next(kNow));
  CHECK(line.next_deadline() == kNow + milliseconds(20));
  gate->state = Status::ok();
  for (std::uint64_t number = 0; number < 2; ++number) {
    const auto passed = line.next(kNow);
    REQUIRE(passed);
    CHECK(passed->status.is_ok());
    CHECK(passed->op.work->sequence().value == number);
  }
  CHECK_FALSE(line.next(kNow));
  CHECK(line.empty());
  CHECK(line.next_deadline() == Instant{Duration::max()});
}

TEST_CASE("an open gate fills in what was not known at the call") {
  group::GateQueue line;
  const auto gate = std::make_shared<SetGate>();
  gate->state = Status::ok();
  line.push({make_work(gated(gate), 0), kLate});
  const auto passed = line.next(kNow);
  REQUIRE(passed);
  CHECK(passed->op.work->request().tag == 7);
}

TEST_CASE("a gate that fails, or does not open in time, keeps its op in line") {
  group::GateQueue line;
  const auto gate = std::make_shared<SetGate>();
  line.push({make_work(gated(gate), 0), kLate});
  const auto late = line.next(kLate);
  REQUIRE(late);
  CHECK(late->status.code() == Code::kTimeout);
  gate->state = Status(Code::kSystem, "the copy failed");
  const auto failed = line.next(kNow);
  REQUIRE(failed);
  CHECK(failed->status.code() == Code::kSystem);
  CHECK_FALSE(line.empty());
  CHECK(line.take_all().size() == 1);
  CHECK(line.empty());
}

}  // namespace
}  // namespace holdfast::ft
