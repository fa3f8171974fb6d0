// Ops that wait for their input at a gate.
#include <doctest/doctest.h>

#include <atomic>

#include "worlds.h"

namespace holdfast::testing {
namespace {

class TestGate final : public comm::Gate {
 public:
  std::optional<Status> look() override {
    switch (state_.load()) {
      case 0: return std::nullopt;
      case 1: return Status::ok();
      default: return Status(Code::kSystem, "the copy failed");
    }
  }
  void open() { state_ = 1; }
  void fail() { state_ = 2; }

 private:
  std::atomic<int> state_{0};
};

std::shared_ptr<comm::Work> started(comm::Communicator& group, OpRequest request) {
  auto work = group.start(std::move(request));
  REQUIRE(work.is_ok());
  return work.value();
}

TEST_CASE("an op waits for its gate, and those after it wait for it") {
  const auto errors = run_world(2, "shm", [](int r, Member& member) -> std::string {
    const float value = static_cast<float>(r + 1);
    std::vector<float> first(1000, 0);
    std::vector<float> second(7, value);
    auto gate = std::make_shared<TestGate>();
    OpRequest gated = all_reduce(first);
    gated.how.gate = r == 0 ? gate : nullptr;
    if (r == 1) first.assign(1000, value);
    const auto one = started(*member.group, gated);
    const auto two = started(*member.group, all_reduce(second));
    if (r == 0) {
      if (one->wait(std::chrono::milliseconds(30)).code() != Code::kTimeout) return "too early";
      if (two->done()) return "out of order";
      first.assign(1000, value);
      gate->open();
      member.group->wake();
    }
    if (!one->wait(seconds(20)).is_ok()) return one->status().message();
    if (!two->wait(seconds(20)).is_ok()) return two->status().message();
    if (first != std::vector<float>(1000, 3)) return "wrong sum of the first";
    if (second != std::vector<float>(7, 3)) return "wrong sum of the second";
    // A blocking call, which would run at once, stays behind its gate, too.
    auto open = std::make_shared<TestGate>();
    open->open();
    OpRequest third = all_reduce(second);
    third.how.gate = open;
    auto ran = member.group->run(std::move(third));
    if (!ran.is_ok()) return ran.status().message();
    if (ran.value().work == nullptr) return "ran past its gate";
    if (!ran.value().work->wait(seconds(20)).is_ok()) return "the third failed";
    return second == std::vector<float>(7, 6) ? "" : "wrong sum of the third";
  });
  expect_no_errors(errors);
}

// An op that nobody knew when it was called.
class LateGate final : public comm::Gate {
 public:
  explicit LateGate(OpRequest late) : late_(std::move(late)) {}
  std::optional<Status> look() override {
    return open_ ? std::optional(Status::ok()) : std::nullopt;
  }
  void fill(OpRequest& request) override {
    OpRequest whole = late_;
    whole.timeout = request.timeout;
    whole.how.gate = request.how.gate;
    request = std::move(whole);
  }
  void open() { open_ = true; }

 private:
  const OpRequest late_;
  std::atomic<bool> open_{false};
};

TEST_CASE("an op may be told what it is when its gate opens") {
  for (const char* transport : {"shm", "tcp"}) {
    const auto errors = run_world(3, transport, [](int r, Member& member) -> std::string {
      std::vector<float> values(5000, static_cast<float>(r));
      std::vector<float> after(9, 1);
      const auto gate = std::make_shared<LateGate>(all_reduce(values));
      OpRequest unknown;
      unknown.collective = Collective::kBarrier;
      unknown.how.gate = gate;
      const auto late = started(*member.group, unknown);
      const auto next = started(*member.group, all_reduce(after));
      if (late->done() || next->done()) return "too early";
      gate->open();
      member.group->wake();
      if (!late->wait(seconds(20)).is_ok()) return late->status().message();
      if (!next->wait(seconds(20)).is_ok()) return next->status().message();
      if (values != std::vector<float>(5000, 3)) return "wrong sum";
      if (late->outcome().contributors.size() != 3) return "outcome";
      return after == std::vector<float>(9, 3) ? "" : "wrong sum after it";
    });
    expect_no_errors(errors);
  }
}

TEST_CASE("messages and step boundaries keep their place behind a gate") {
  const auto errors = run_world(2, "tcp", [](int r, Member& member) -> std::string {
    std::vector<float> sum(3, 1);
    std::vector<float> letter(5, static_cast<float>(r));
    auto gate = std::make_shared<TestGate>();
    OpRequest gated = all_reduce(sum);
    gated.how.gate = gate;
    const auto reduced = started(*member.group, gated);
    OpRequest message;
    message.collective = r == 0 ? Collective::kSend : Collective::kRecv;
    message.peer = {1 - r};
    (r == 0 ? message.input : message.output) = {block(letter)};
    const auto sent = started(*member.group, message);
    const auto passed = member.group->advance(seconds(20));
    if (sent->wait(std::chrono::milliseconds(20)).code() != Code::kTimeout) return "too early";
    gate->open();
    member.group->wake();
    for (const auto& work : {reduced, sent, passed}) {
      if (!work->wait(seconds(20)).is_ok()) return work->status().message();
    }
    return sum == std::vector<float>(3, 2) && letter == std::vector<float>(5, 0) ? "" : "wrong";
  });
  expect_no_errors(errors);
}

TEST_CASE("a gate that fails ends its op on all ranks, with its words") {
  std::vector<Status> ends(3);
  const auto errors = run_world(3, "tcp", [&](int r, Member& member) -> std::string {
    std::vector<float> values(100, 1);
    OpRequest request = all_reduce(values);
    auto gate = std::make_shared<TestGate>();
    if (r == 1) {
      request.how.gate = gate;
      gate->fail();
    }
    const auto work = started(*member.group, request);
    const Status waited = work->wait(seconds(20));
    ends[static_cast<std::size_t>(r)] = waited;
    return work->done() ? "" : "hangs";
  });
  expect_no_errors(errors);
  for (const Status& end : ends) {
    CHECK(end.code() == Code::kSystem);
    CHECK(end.message().find("the copy failed") != std::string::npos);
    CHECK(end.message().find("all_reduce #0") != std::string::npos);
    CHECK(end.ranks() == std::vector<Rank>{{1}});
  }
}

TEST_CASE("a gate that never opens ends with the op's time limit") {
  std::vector<Status> ends(2);
  const auto errors = run_world(2, "shm", [&](int r, Member& member) -> std::string {
    std::vector<float> values(100, 1);
    OpRequest request = all_reduce(values);
    request.timeout = r == 0 ? Duration(std::chrono::milliseconds(100)) : seconds(20);
    if (r == 0) request.how.gate = std::make_shared<TestGate>();
    const auto work = started(*member.group, request);
    ends[static_cast<std::size_t>(r)] = work->wait(seconds(20));
    return "";
  });
  expect_no_errors(errors);
  for (const Status& end : ends) {
    CHECK(end.code() == Code::kTimeout);
    CHECK(end.message().find("its input was not there") != std::string::npos);
  }
}

TEST_CASE("a group that is closed takes its line with it") {
  const auto errors = run_world(1, "tcp", [](int, Member& member) -> std::string {
    std::vector<float> values(10, 1);
    OpRequest request = all_reduce(values);
    request.how.gate = std::make_shared<TestGate>();
    const auto work = started(*member.group, request);
    if (member.group->close(std::chrono::milliseconds(10)).code() != Code::kTimeout) return "ended";
    return work->wait(seconds(5)).code() == Code::kAborted ? "" : work->status().message();
  });
  expect_no_errors(errors);
}

TEST_CASE("device memory on one rank and host memory on another is no match, and said so") {
  for (const std::size_t count : {std::size_t{10}, std::size_t{100'000}}) {
    std::vector<Status> ends(2);
    const auto errors = run_world(2, "shm", [&](int r, Member& member) -> std::string {
      std::vector<float> values(count, 1);
      OpRequest request = all_reduce(values);
      request.how.on_device = r == 1;
      ends[static_cast<std::size_t>(r)] = started(*member.group, request)->wait(seconds(20));
      return "";
    });
    expect_no_errors(errors);
    for (const Status& end : ends) {
      CHECK(end.code() == Code::kProtocolError);
      CHECK(end.message().find("rank 1 called all_reduce #0") != std::string::npos);
      CHECK(end.message().find("in device memory") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace holdfast::testing
