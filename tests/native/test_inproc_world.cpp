// Many ranks of one process over in-process links: a sparse world begins, sums, loses ranks, ends.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "inproc_world.h"

namespace holdfast {
namespace {

using testing::InprocWorld;

constexpr std::size_t kCount = 1024;  // elements
constexpr Duration kLimit = std::chrono::seconds(240);

TEST_CASE("a hundred ranks of one process sum, lose ten at once, and end in order") {
  InprocWorld world(100);
  for (int i = 0; i < 3; ++i) CHECK(world.sum(kCount, kLimit) == "");
  // The first rank, which coordinates, two neighbours, and others.
  for (const int r : {0, 10, 11, 23, 37, 50, 62, 74, 86, 99}) world.end(r);
  for (int i = 0; i < 3; ++i) CHECK(world.sum(kCount, kLimit) == "");
  CHECK(world.rank(1).group().view().epoch >= Epoch{2});
  CHECK(world.close(kLimit));
}

TEST_CASE("of many ranks those that coordinate end one after the other") {
  InprocWorld world(64);
  CHECK(world.sum(kCount, kLimit) == "");
  for (int r = 0; r < 5; ++r) {
    world.end(r);
    CHECK(world.sum(kCount, kLimit) == "");
  }
  CHECK(world.sum(kCount, kLimit) == "");
  CHECK(world.close(kLimit));
}

TEST_CASE("ranks of a large world are connected with few others, but for the first") {
  InprocWorld world(128);
  for (int i = 0; i < 3; ++i) CHECK(world.sum(kCount, kLimit) == "");
  std::vector<std::size_t> links;
  for (int r = 0; r < 128; ++r) links.push_back(world.rank(r).links());
  CHECK(links.front() == 127);
  std::sort(links.begin(), links.end());
  CHECK(links[links.size() - 2] < 32);
  CHECK(world.close(kLimit));
}

}  // namespace
}  // namespace holdfast
