// Operators that callers bring: what they are called with, what is refused, and results on every
// way: through shared memory, by messages, large elements and odd ones.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "comm/call/call.h"
#include "comm/call/request_check.h"
#include "comm/reduce/reducer.h"
#include "worlds.h"

namespace holdfast::comm {
namespace {

using holdfast::testing::expect_no_errors;
using holdfast::testing::Member;
using holdfast::testing::Options;
using holdfast::testing::run_world;

// An element says which rank is its first, which its last, and of how many it is made; the rest is
// a filling that every operand must have. Joining is associative, and never commutative.
constexpr std::size_t kHead = 4;  // first, last, count in two bytes

void put(std::byte* at, std::uint64_t bytes, int first, int last, int count) {
  at[0] = static_cast<std::byte>(first);
  at[1] = static_cast<std::byte>(last);
  at[2] = static_cast<std::byte>(count & 0xff);
  at[3] = static_cast<std::byte>(count >> 8);
  for (std::uint64_t i = kHead; i < bytes; ++i) at[i] = static_cast<std::byte>(i % 251);
}

int count_of(const std::byte* at) { return static_cast<int>(at[2]) | static_cast<int>(at[3]) << 8; }

// What an operator has seen that it must not see.
struct Complaints {
  std::atomic<int> loose{0};     // operands that are not aligned
  std::atomic<int> disorder{0};  // operands that do not follow each other
  std::atomic<int> calls{0};
};

std::shared_ptr<const UserOp> joiner(std::uint64_t bytes, bool commutative, Complaints& seen) {
  auto user = std::make_shared<UserOp>();
  user->element_bytes = bytes;
  user->commutative = commutative;
  const std::uint64_t alignment = std::min<std::uint64_t>(bytes & (~bytes + 1), 16);
  user->apply = [=, &seen](const void* in, void* inout, std::uint64_t count) {
    ++seen.calls;
    const auto is_loose = [&](const void* at) {
      return reinterpret_cast<std::uintptr_t>(at) % alignment != 0;
    };
    if (is_loose(in) || is_loose(inout)) ++seen.loose;
    const auto* a = static_cast<const std::byte*>(in);
    auto* b = static_cast<std::byte*>(inout);
    for (std::uint64_t i = 0; i < count; ++i, a += bytes, b += bytes) {
      const bool follows = static_cast<int>(a[1]) + 1 == static_cast<int>(b[0]);
      if (!commutative && !follows) ++seen.disorder;
      for (std::uint64_t k = kHead; k < bytes; ++k) {
        if (a[k] != b[k]) ++seen.disorder;
      }
      put(b, bytes, static_cast<int>(a[0]), static_cast<int>(b[1]), count_of(a) + count_of(b));
    }
  };
  return user;
}

struct UserCase {
  Collective collective{};
  std::uint64_t element = 0;
  std::size_t count = 0;
  bool commutative = false;
};

OpRequest request_for(const UserCase& c, int size, std::vector<std::byte>& input,
                      std::vector<std::byte>& output, std::shared_ptr<const UserOp> user) {
  OpRequest request;
  request.collective = c.collective;
  request.dtype = DType::kU8;
  request.op = ReduceOp::kUser;
  request.user = std::move(user);
  request.root = {size / 2};
  const std::size_t blocks = has_input_blocks(c.collective) ? static_cast<std::size_t>(size) : 1;
  for (std::size_t b = 0; b < blocks; ++b) {
    request.input.push_back({input.data() + b * c.count * c.element, c.count});
  }
  request.output = {{output.data(), c.count}};
  return request;
}

std::string run_case(Member& member, const UserCase& c) {
  const int rank = member.group->rank().value;
  const int size = member.group->size();
  Complaints seen;
  const std::size_t blocks = has_input_blocks(c.collective) ? static_cast<std::size_t>(size) : 1;
  std::vector<std::byte> input(std::max<std::size_t>(1, blocks * c.count * c.element));
  std::vector<std::byte> output(std::max<std::size_t>(1, c.count * c.element), std::byte{0xee});
  for (std::size_t i = 0; i < blocks * c.count; ++i) {
    put(input.data() + i * c.element, c.element, rank, rank, 1);
  }
  OpRequest request = request_for(c, size, input, output, joiner(c.element, c.commutative, seen));
  const bool has = has_result(c.collective, request.root.value == rank);
  if (!has) request.output = {};
  // Rank 0 of an exclusive scan need not have room for a result.
  if (c.collective == Collective::kExscan && rank == 0 && c.commutative) {
    request.output[0].data = nullptr;
  }
  auto ran = member.group->run(std::move(request));
  if (!ran.is_ok()) return ran.status().message();
  if (ran.value().work) {
    const Status status = ran.value().work->wait(std::chrono::seconds(60));
    if (!status.is_ok()) return status.message();
  }
  const std::string at = std::string(collective_name(c.collective)) + " of " +
                         std::to_string(c.count) + " times " + std::to_string(c.element) + ": ";
  if (seen.loose > 0) return at + "operands are not aligned";
  if (seen.disorder > 0) return at + "operands do not follow each other";
  const int operands = c.collective == Collective::kScan     ? rank + 1
                       : c.collective == Collective::kExscan ? rank
                                                             : size;
  std::vector<std::byte> want(c.element);
  put(want.data(), c.element, 0, operands - 1, operands);
  for (std::size_t i = 0; has && i < c.count; ++i) {
    const std::byte* got = output.data() + i * c.element;
    const bool untouched = operands == 0;
    if (untouched ? got[0] != std::byte{0xee} : count_of(got) != operands) return at + "no sum";
    if (untouched || c.commutative) continue;
    if (std::memcmp(got, want.data(), c.element) != 0) return at + "another order";
  }
  return "";
}

constexpr Collective kReductions[]{Collective::kAllReduce, Collective::kReduce,
                                   Collective::kReduceScatter, Collective::kScan,
                                   Collective::kExscan};

std::string run_all(Member& member) {
  for (const Collective collective : kReductions) {
    for (const std::uint64_t element : {4ULL, 5ULL, 12ULL, 24ULL, 48ULL, 1000ULL}) {
      for (const std::size_t count : {0UL, 1UL, 7UL, 400UL, 9001UL}) {
        if (element == 1000 && count > 400) continue;
        for (const bool commutative : {false, true}) {
          std::string wrong = run_case(member, {collective, element, count, commutative});
          if (!wrong.empty()) return wrong;
        }
      }
    }
    // Larger than a slot of the slices, than a frame, and than what is reduced at a time.
    std::string wrong = run_case(member, {collective, 300'004, 3, false});
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST_CASE("operators of callers fold in the order of ranks on every way") {
  for (const char* transport : {"shm", "tcp"}) {
    for (const int size : {2, 3, 5}) {
      for (const bool protect : {true, false}) {
        expect_no_errors(run_world(
            size, transport, [](int, Member& member) { return run_all(member); },
            [&](Options& options) { options.fault_tolerance = protect; }));
      }
    }
  }
}

TEST_CASE("an operator may start and abort ops, for no lock is held") {
  expect_no_errors(run_world(2, "shm", [](int, Member& member) -> std::string {
    std::vector<std::uint8_t> data(8, 1);
    std::shared_ptr<Work> nested;
    std::vector<float> other(4, 1.0F);
    auto user = std::make_shared<UserOp>();
    user->apply = [&](const void*, void*, std::uint64_t) {
      if (nested != nullptr) return;
      auto started = member.group->start(holdfast::testing::all_reduce(other));
      if (started.is_ok()) nested = started.value();
    };
    OpRequest request;
    request.collective = Collective::kAllReduce;
    request.dtype = DType::kU8;
    request.op = ReduceOp::kUser;
    request.user = user;
    request.input = request.output = {{reinterpret_cast<std::byte*>(data.data()), data.size()}};
    auto started = member.group->start(std::move(request));
    if (!started.is_ok()) return started.status().message();
    const Status status = started.value()->wait(std::chrono::seconds(30));
    if (!status.is_ok()) return status.message();
    if (nested == nullptr) return "the operator was not called";
    const Status inner = nested->wait(std::chrono::seconds(30));
    return inner.is_ok() && other[0] == 2.0F ? "" : "the nested op: " + inner.message();
  }));
}

TEST_CASE("the left operand stays left, whichever of the operands the result replaces") {
  Complaints seen;
  for (const std::uint64_t element : {4ULL, 12ULL, 48ULL, 20'000ULL}) {
    const auto user = joiner(element, false, seen);
    constexpr std::size_t kCount = 1500;
    const std::size_t count = element > 1000 ? 3 : kCount;
    for (const std::size_t off : {0UL, 1UL}) {
      std::vector<std::byte> a(count * element + off);
      std::vector<std::byte> b(a.size());
      for (std::size_t i = 0; i < count; ++i) {
        put(a.data() + off + i * element, element, 0, 3, 4);
        put(b.data() + off + i * element, element, 4, 5, 2);
      }
      std::vector<std::byte> want(element);
      put(want.data(), element, 0, 5, 6);
      const auto check = [&](const std::vector<std::byte>& out) {
        for (std::size_t i = 0; i < count; ++i) {
          REQUIRE(std::memcmp(out.data() + off + i * element, want.data(), element) == 0);
        }
      };
      std::vector<std::byte> out(a.size());
      combine_by(*user, out.data() + off, a.data() + off, b.data() + off, count);
      check(out);
      std::vector<std::byte> left = a;
      combine_by(*user, left.data() + off, left.data() + off, b.data() + off, count);
      check(left);
      std::vector<std::byte> right = b;
      combine_by(*user, right.data() + off, a.data() + off, right.data() + off, count);
      check(right);
    }
  }
  CHECK(seen.loose == 0);
  CHECK(seen.disorder == 0);
}

std::string refusal_of(const OpRequest& request) {
  const Status status = check_request(request, {0}, 2);
  return status.is_ok() ? "" : status.message();
}

void expect_refused(const OpRequest& request, const std::string& words) {
  const std::string text = refusal_of(request);
  CHECK_MESSAGE(text.find(words) != std::string::npos, text);
}

TEST_CASE("what cannot be done by a caller's operator is refused in words") {
  Complaints seen;
  std::vector<std::byte> input(64);
  std::vector<std::byte> output(64);
  const UserCase c{Collective::kAllReduce, 8, 4, false};
  const OpRequest good = request_for(c, 2, input, output, joiner(8, false, seen));
  CHECK(refusal_of(good).empty());
  OpRequest request = good;
  request.user = nullptr;
  expect_refused(request, "op user without an operator");
  request = good;
  request.op = ReduceOp::kSum;
  expect_refused(request, "op user");
  request = good;
  request.dtype = DType::kF32;
  expect_refused(request, "dtype f32; accepted: the host's memory, dtype u8");
  request = good;
  request.how.on_device = true;
  expect_refused(request, "memory of a device");
  request = good;
  request.algorithm = "ring";
  expect_refused(request, "no algorithm \"ring\" that folds in the order of ranks; accepted: flat");
  request = good;
  request.user = joiner(8, true, seen);
  request.algorithm = "ring";
  CHECK(refusal_of(request).empty());
  request.order = FoldOrder::kRanks;
  expect_refused(request, "order of ranks");
  for (const std::uint64_t bytes : {std::uint64_t{0}, kMostUserElement + 1}) {
    auto odd = std::make_shared<UserOp>(*good.user);
    odd->element_bytes = bytes;
    request = good;
    request.user = odd;
    expect_refused(request, "accepted: 1 to 268435456");
  }
  request = good;
  request.collective = Collective::kBroadcast;
  expect_refused(request, "goes with a reduction");
}

TEST_CASE("scans have no averages, and no room for their result in the input") {
  std::vector<std::byte> input(64);
  std::vector<std::byte> output(64);
  for (const Collective c : {Collective::kScan, Collective::kExscan}) {
    OpRequest request = request_for({c, 4, 8, false}, 2, input, output, nullptr);
    request.dtype = DType::kF32;
    request.op = ReduceOp::kMax;
    CHECK(refusal_of(request).empty());
    request.op = ReduceOp::kAvg;
    expect_refused(request, "avg is not defined on f32");
    request.op = ReduceOp::kMax;
    request.output[0].data = nullptr;
    CHECK(refusal_of(request).empty() == (c == Collective::kExscan));
    CHECK_FALSE(check_request(request, {1}, 2).is_ok());
    request.output = request.input;
    expect_refused(request, "pass a separate output");
  }
}

TEST_CASE("logs have a caller's operator by name, and its elements as bytes") {
  Complaints seen;
  std::vector<std::byte> input(64);
  std::vector<std::byte> output(64);
  const UserCase c{Collective::kScan, 8, 4, false};
  const Call call = call_of(request_for(c, 2, input, output, joiner(8, false, seen)), {3});
  CHECK(call_text(call) == "scan #3 (u8, 32 elements, user)");
}

}  // namespace
}  // namespace holdfast::comm
