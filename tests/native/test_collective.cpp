// The table of collectives is complete and says nothing that contradicts itself.
#include <doctest/doctest.h>

#include <set>

#include "comm/schedule/collective.h"

namespace holdfast::comm {
namespace {

// Without a default, so that a collective that is missing here does not compile: whoever adds one
// sees this test, and that the table's size follows the last of them.
bool is_known(Collective c) {
  switch (c) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kScan:
    case Collective::kExscan: return static_cast<int>(c) < kCollectiveCount;
  }
  return false;
}

TEST_CASE("every collective has a row, in the order of the enumeration, and a name of its own") {
  std::set<std::string_view> names;
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto c = static_cast<Collective>(i);
    CAPTURE(i);
    CHECK(is_known(c));
    CHECK(facts_of(c).collective == c);
    CHECK(!collective_name(c).empty());
    CHECK(find_collective(collective_name(c)) == c);
    CHECK(names.insert(collective_name(c)).second);
  }
  CHECK(!is_known(static_cast<Collective>(kCollectiveCount)));
  CHECK(!find_collective("all_reduc"));
  CHECK(!find_collective(""));
}

TEST_CASE("no row contradicts itself") {
  for (const CollectiveFacts& facts : kCollectives) {
    CAPTURE(facts.name);
    const Collective c = facts.collective;
    // Who is alone in having blocks is a root, and the one whose side it is.
    if (facts.input.at_root_only) CHECK(facts.root == RootRole::kGives);
    if (facts.output.at_root_only) CHECK(facts.root == RootRole::kTakes);
    if (facts.root == RootRole::kTakes) CHECK(facts.output.at_root_only);
    // What only one rank has is no result of all.
    if (facts.replicated) CHECK((facts.root != RootRole::kTakes && !has_own_output(c)));
    // A side that all count alike has blocks.
    if (facts.common == CommonSide::kInput) CHECK(facts.input.count != BlockCount::kNone);
    if (facts.common == CommonSide::kOutput) CHECK(facts.output.count != BlockCount::kNone);
    if (facts.common_if_equal) CHECK((facts.common != CommonSide::kNone && has_blocks_by_rank(c)));
    if (facts.point_to_point) {
      CHECK((!facts.reduces && !facts.replicated && facts.common == CommonSide::kNone));
    }
    if (facts.reduces) CHECK(!gathers(c));
  }
}

TEST_CASE("what is looked up follows from the row") {
  CHECK((has_own_input(Collective::kGather) && !has_own_input(Collective::kAllToAll)));
  CHECK((has_own_output(Collective::kScatter) && !has_own_output(Collective::kAllReduce)));
  CHECK(input_counts(Collective::kBroadcast, true));
  CHECK(!input_counts(Collective::kBroadcast, false));
  CHECK(input_counts(Collective::kGather, false));
  CHECK(!has_result(Collective::kReduce, false));
  CHECK(block_count(facts_of(Collective::kGather).output, true, 5) == 5);
  CHECK(block_count(facts_of(Collective::kGather).output, false, 5) == 0);
  // Equal blocks are as large everywhere, but a root of a gather has more of them.
  CHECK((is_sized_alike(Collective::kAllToAll, true) &&
         !is_sized_alike(Collective::kAllToAll, false)));
  CHECK((!is_sized_alike(Collective::kGather, true) && is_sized_alike(Collective::kReduce, false)));
  CHECK((is_sized_alike(Collective::kBarrier, false) && !is_sized_alike(Collective::kSend, true)));
  CHECK(common_side(Collective::kScatter, true) == CommonSide::kOutput);
  CHECK(common_side(Collective::kScatter, false) == CommonSide::kNone);
}

}  // namespace
}  // namespace holdfast::comm
