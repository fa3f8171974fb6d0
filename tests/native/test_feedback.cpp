// What of a residual is committed, and what is left as it was.
#include "group/parts/feedback.h"

#include <doctest/doctest.h>

#include <cstring>

#include "group_parts.h"

namespace holdfast::ft {
namespace {

constexpr Rank kSelf{0};

struct Encoded {
  std::vector<float> data = std::vector<float>(4, 1);
  std::vector<float> residual = std::vector<float>(4, -1);
  comm::OpRequest request = testing::sum_in_place(data);
  group::Feedback::Residual left;
  group::Feedback feedback{kSelf, nullptr, std::make_shared<testing::SetClock>()};

  Encoded() { request.residual = {residual.data()}; }
  // A run that owes 5 of each element.
  void run(const std::vector<Rank>& present) {
    for (float* at : feedback.begin(left, request, present)) std::fill(at, at + 4, 5.F);
  }
};

TEST_CASE("a residual is the caller's when its op has ended well, and not before") {
  Encoded op;
  op.run({{0}, {1}});
  CHECK(op.residual == std::vector<float>(4, -1));
  op.feedback.end(op.left, op.request, {{0}, {1}}, true);
  CHECK(op.residual == std::vector<float>(4, 5));
}

TEST_CASE("an op that fails leaves the residual as it was") {
  Encoded op;
  op.run({{0}, {1}});
  op.feedback.end(op.left, op.request, {{0}, {1}}, false);
  CHECK(op.residual == std::vector<float>(4, -1));
}

TEST_CASE("what a repair took from the input as it is stays owed") {
  Encoded op;
  op.run({{0}, {1}});
  group::OpFate fate;
  fate.reductions.push_back({0, {1, 2}, {}});
  group::Transfer own{kSelf, {1}, true, 0, 0, {3, 4}};
  group::Transfer other{{1}, kSelf, true, 0, 0, {0, 1}};
  fate.transfers = {own, other};
  op.feedback.note_uncoded(op.left, op.request, fate);
  op.feedback.end(op.left, op.request, {{0}, {1}}, true);
  CHECK(op.residual == std::vector<float>{5, -1, 5, -1});
}

TEST_CASE("a run from the start forgets what an earlier view took uncoded") {
  Encoded op;
  op.run({{0}, {1}});
  group::OpFate fate;
  fate.reductions.push_back({0, {0, 4}, {}});
  op.feedback.note_uncoded(op.left, op.request, fate);
  op.run({{0}, {1}});
  op.feedback.end(op.left, op.request, {{0}, {1}}, true);
  CHECK(op.residual == std::vector<float>(4, 5));
}

TEST_CASE("what was for a rank that has gone stays owed, and blocks of those there are given") {
  Encoded op;
  std::vector<float> second(4, -2);
  op.request.collective = comm::Collective::kReduceScatter;
  op.request.input = {op.request.input[0], op.request.input[0]};
  op.request.residual = {op.residual.data(), second.data()};
  CHECK(op.feedback.begin(op.left, op.request, {{0}}).size() == 1);
  op.run({{0}, {1}});
  op.feedback.end(op.left, op.request, {{0}}, true);
  CHECK(op.residual == std::vector<float>(4, 5));
  CHECK(second == std::vector<float>(4, -2));
}

TEST_CASE("an op without a residual has nothing to keep") {
  Encoded op;
  op.request.residual.clear();
  CHECK(op.feedback.begin(op.left, op.request, {{0}}).empty());
  op.feedback.end(op.left, op.request, {{0}}, true);
}

}  // namespace
}  // namespace holdfast::ft
