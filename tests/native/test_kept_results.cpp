// Results that others may still need.
#include "group/parts/kept_results.h"

#include <doctest/doctest.h>

#include "group_parts.h"

namespace holdfast::ft {
namespace {

using testing::make_work;
using testing::sum_in_place;

group::Fate fate_in(Epoch epoch) {
  group::OpFate fate;
  fate.epoch = epoch;
  return std::make_shared<const group::OpFate>(std::move(fate));
}

float first_value(const comm::BlockList& blocks) {
  return *reinterpret_cast<const float*>(blocks[0].data);
}

TEST_CASE("a kept result is a copy, and stands for the input, too") {
  group::KeptResults kept;
  std::vector<float> data(5, 3);
  kept.keep(*make_work(sum_in_place(data), 4), fate_in({2}), {0});
  data.assign(5, -1);
  group::KeptResults::Kept* found = kept.find({4});
  REQUIRE(found != nullptr);
  CHECK(first_value(found->request.output) == 3);
  CHECK(first_value(found->request.input) == 3);
  CHECK(found->completed_in == Epoch{2});
}

TEST_CASE("results go when all members are known to hold them") {
  group::KeptResults kept;
  std::vector<float> data(5, 3);
  for (std::uint64_t number : {3U, 4U, 6U}) {
    kept.keep(*make_work(sum_in_place(data), number), fate_in({1}), {0});
  }
  kept.on_stable({4});
  CHECK(kept.find({4}) == nullptr);
  CHECK(kept.first() == OpSeq{6});
  kept.forget({6});
  CHECK_FALSE(kept.first());
}

TEST_CASE("of the flat exchange the latest two ops can still be read") {
  group::KeptResults kept;
  for (std::uint64_t number : {1U, 2U, 3U}) {
    comm::Call call;
    call.sequence = {number};
    kept.note_flat_end(call, {1});
  }
  CHECK(kept.flat_end({1}) == nullptr);
  REQUIRE(kept.flat_end({3}) != nullptr);
  CHECK(kept.flat_end({3})->sequence == OpSeq{3});
}

TEST_CASE("a report says of each result in which epoch it was complete") {
  group::KeptResults kept;
  std::vector<float> data(5, 3);
  kept.keep(*make_work(sum_in_place(data), 4), fate_in({2}), {0});
  kept.note_flat_end({{9}}, {3});
  std::vector<group::OpReport> ops;
  kept.report(ops);
  CHECK(ops ==
        std::vector<group::OpReport>{{{9}, true, true, {3}, {}}, {{4}, true, false, {2}, {}}});
  kept.clear();
  ops.clear();
  kept.report(ops);
  CHECK(ops.empty());
}

}  // namespace
}  // namespace holdfast::ft
