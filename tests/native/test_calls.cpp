// Calls as values: which ones conflict, how they are told and what a person reads.
#include <doctest/doctest.h>

#include <algorithm>

#include "comm/call/call_log.h"
#include "comm/view/view_notice.h"

namespace holdfast::comm {
namespace {

Call call(std::uint32_t sequence, Collective collective, std::uint64_t elements = 10) {
  return {{sequence}, collective, DType::kF32, ReduceOp::kSum, {0}, elements, elements};
}

TEST_CASE("calls conflict in what must agree, and in nothing else") {
  const Call sum = call(0, Collective::kAllReduce);
  CHECK_FALSE(conflict(sum, sum));
  CHECK(conflict(sum, call(0, Collective::kBroadcast)));
  CHECK(conflict(sum, call(0, Collective::kAllReduce, 11)));
  Call other = sum;
  other.dtype = DType::kF64;
  CHECK(conflict(sum, other));
  other = sum;
  other.op = ReduceOp::kMax;
  CHECK(conflict(sum, other));
  other = sum;
  other.codec = "int8(block=64)";
  CHECK(conflict(sum, other));
  CHECK(call_text(other) == "all_reduce #0 (f32, 10 elements, sum, codec int8(block=64))");
  CHECK(history_after(0, sum) != history_after(0, other));
  other = sum;
  other.root = {1};
  CHECK_FALSE(conflict(sum, other));  // an all-reduce has no root

  Call first = call(0, Collective::kBroadcast);
  Call second = first;
  second.root = {1};
  CHECK(conflict(first, second));
  second = first;
  second.op = ReduceOp::kMax;
  CHECK_FALSE(conflict(first, second));  // a broadcast reduces nothing

  first = call(0, Collective::kAllToAll, 5);
  second = call(0, Collective::kAllToAll, 7);
  CHECK_FALSE(conflict(first, second));  // every pair has its own sizes
  first = call(0, Collective::kBarrier, 0);
  second = first;
  second.dtype = DType::kI8;
  CHECK_FALSE(conflict(first, second));
}

TEST_CASE("a log finds the disagreement whoever calls first") {
  CallLog early(3);
  CHECK_FALSE(early.hear({2}, call(0, Collective::kBroadcast)));
  CHECK_FALSE(early.hear({1}, call(1, Collective::kBarrier)));
  const auto found = early.record(call(0, Collective::kAllReduce));
  REQUIRE(found);
  CHECK(found->with == Rank{2});
  CHECK(found->sequence == OpSeq{0});
  CHECK_FALSE(early.record(call(1, Collective::kBarrier)));

  CallLog late(3);
  CHECK_FALSE(late.record(call(0, Collective::kAllReduce)));
  CHECK_FALSE(late.hear({1}, call(0, Collective::kAllReduce)));
  CHECK(late.hear({1}, call(0, Collective::kAllReduce, 99)));
}

TEST_CASE("a log stays small whatever its peers send, and answers for old calls as unknown") {
  CallLog log(2);
  for (std::uint32_t i = 0; i < 1000; ++i)
    CHECK_FALSE(log.hear({1}, call(i, Collective::kBarrier)));
  for (std::uint32_t i = 0; i < 1000; ++i) log.record(call(i, Collective::kBarrier));
  CHECK(*log.report({999}).find({999}) == call(999, Collective::kBarrier));
  CHECK(log.report({999}).calls.size() <= kReportedCalls);
  CHECK(log.report({3}).find({3}) == nullptr);
  CHECK(log.report({1000}).calls.back() == call(999, Collective::kBarrier));
}

TEST_CASE("who called what reads as a sentence, equal calls together") {
  CallLog log(5);
  const auto nothing = log.report({0});
  log.record(call(0, Collective::kAllReduce, 1000));
  Call other = call(0, Collective::kBroadcast, 4);
  other.dtype = DType::kI64;
  other.root = {2};
  CallLog behind(5);
  behind.record(call(0, Collective::kBarrier, 0));
  const CallReport called{{0}, {other}};
  CHECK(reports_text({log.report({0}), called, log.report({0}), nothing, std::nullopt},
                     {{0}, {1}, {2}, {3}, {4}}) ==
        "ranks 0, 2 called all_reduce #0 (f32, 1000 elements, sum); rank 1 called broadcast #0 "
        "(i64, 4 elements, root 2); rank 3 has not called #0, nor anything before; rank 4 did not "
        "answer");
  CHECK(reports_text({behind.report({1})}, {{0}}) == "rank 0 has not called #1 (last: barrier #0)");
}

TEST_CASE("calls by other maps of links conflict, and are told by the map's version") {
  Call first = call(4, Collective::kAllReduce);
  Call second = first;
  first.map = 1;
  CHECK_FALSE(conflict(first, second));  // the other one does not say
  second.map = 3;
  CHECK(conflict(first, second));
  CallLog one(2);
  CallLog two(2);
  one.record(first);
  two.record(second);
  CHECK(reports_text({one.report({4}), two.report({4})}, {{0}, {1}}) ==
        "rank 0 called all_reduce #4 (f32, 10 elements, sum); "
        "rank 1 called all_reduce #4 by map 2 (f32, 10 elements, sum)");
}

TEST_CASE("a weight that one rank gives and another does not is a conflict, and told") {
  Call plain = call(4, Collective::kAllReduce);
  plain.op = ReduceOp::kAvg;
  Call weighted = plain;
  weighted.weighted = true;
  CHECK(conflict(plain, weighted));
  CHECK(history_after(0, plain) != history_after(0, weighted));
  CHECK(decode_call(encode_call(weighted)).value() == weighted);
  CHECK(call_text(weighted) == "all_reduce #4 (f32, 10 elements, avg by weights)");
}

TEST_CASE("the first difference is told, not the call that stumbled over it") {
  CallLog one(2);
  CallLog two(2);
  Call root = call(0, Collective::kBroadcast);
  one.record(root);
  root.root = {1};
  two.record(root);
  one.record(call(1, Collective::kBarrier));
  two.record(call(1, Collective::kBarrier));
  CHECK(one.history() != two.history());
  CHECK(reports_text({one.report({1}), two.report({1})}, {{0}, {1}}) ==
        "rank 0 called broadcast #0 (f32, 10 elements, root 0); "
        "rank 1 called broadcast #0 (f32, 10 elements, root 1)");
}

TEST_CASE("calls and reports survive the wire; anything else is refused") {
  Call sent = call(7, Collective::kReduce, 1ULL << 40);
  sent.root = {3};
  sent.op = ReduceOp::kBxor;
  sent.codec = "topk(ratio=0.0125)";
  sent.map = 3;
  const auto bytes = encode_call(sent);
  CHECK(bytes.size() == kCallBytes);
  CHECK(decode_call(bytes).value() == sent);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CHECK_FALSE(decode_call(std::span(bytes).first(n)).is_ok());
  }
  for (const std::size_t at : {8UL, 9UL, 10UL, 11UL, 38UL, 64UL}) {
    auto broken = bytes;
    broken[at] = std::byte{0xff};
    CHECK_FALSE(decode_call(broken).is_ok());
  }
  auto unended = bytes;
  std::fill(unended.begin() + 36, unended.end(), std::byte{'x'});
  CHECK_FALSE(decode_call(unended).is_ok());

  ViewNotice notice{Code::kTimeout, {{1}}, "gave up"};
  notice.report = CallReport{{9}, {sent, call(8, Collective::kBarrier)}};
  const auto encoded = encode_notice(notice);
  const auto decoded = decode_notice(encoded, 4);
  REQUIRE(decoded.is_ok());
  CHECK(decoded.value().text == "gave up");
  REQUIRE(decoded.value().report);
  CHECK(decoded.value().report->sequence == OpSeq{9});
  CHECK(decoded.value().report->calls == notice.report->calls);
  for (std::size_t n = 0; n + notice.text.size() < encoded.size(); ++n) {
    CHECK_FALSE(decode_notice(std::span(encoded).first(n), 4).is_ok());
  }
}

}  // namespace
}  // namespace holdfast::comm
