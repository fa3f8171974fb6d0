// Code groups, and where each part of a code lies.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ft/snapshots/code_groups.h"
#include "ft/snapshots/code_places.h"

namespace holdfast::ft {
namespace {

std::vector<std::string> hosts(std::initializer_list<const char*> names) {
  return {names.begin(), names.end()};
}

std::vector<std::string> even_hosts(int count, int each) {
  std::vector<std::string> domains;
  for (int host = 0; host < count; ++host) {
    for (int i = 0; i < each; ++i) domains.push_back("host" + std::to_string(host));
  }
  return domains;
}

std::vector<std::vector<int>> ranks_of(const CodePlan& plan) {
  std::vector<std::vector<int>> ranks;
  for (const CodeGroup& group : plan.groups) ranks.push_back(group.ranks);
  return ranks;
}

TEST_CASE("as many hosts as parts are one group") {
  const auto plan = code_groups(hosts({"a", "b", "c", "d"}), {3, 1}).value();
  CHECK(ranks_of(plan) == std::vector<std::vector<int>>{{0, 1, 2, 3}});
  CHECK(plan.groups[0].data() == 3);
  CHECK(plan.said == "");
}

TEST_CASE("ranks of one host guard each other never") {
  const auto plan = code_groups(hosts({"a", "a", "b", "b", "c", "c"}), {2, 1}).value();
  CHECK(ranks_of(plan) == std::vector<std::vector<int>>{{0, 2, 4}, {1, 3, 5}});
}

TEST_CASE("leftovers make groups with fewer data parts, never with fewer parities") {
  const auto plan = code_groups(even_hosts(5, 1), {3, 1}).value();
  CHECK(ranks_of(plan) == std::vector<std::vector<int>>{{0, 2, 4}, {1, 3}});
  CHECK(plan.groups[0].data() == 2);
  CHECK(plan.groups[1].data() == 1);
  CHECK(plan.groups[1].parity == 1);
  CHECK(plan.said == "2 of 2 groups have fewer data parts than 3");
}

TEST_CASE("a host too many makes a group larger, where it could be in none of its own") {
  const auto plan = code_groups(even_hosts(3, 1), {1, 1}).value();
  CHECK(ranks_of(plan) == std::vector<std::vector<int>>{{0, 1, 2}});
  CHECK(plan.said == "1 of 1 groups have more data parts than 1");
}

TEST_CASE("every rank is in one group of m + 1 to k + m hosts, wherever that is possible") {
  int plans = 0;
  for (int count = 1; count <= 9; ++count) {
    for (int code = 0; code < 16; ++code) {
      for (int shape = 0; shape < 8; ++shape) {
        const CodeWanted wanted{1 + code % 4, 1 + code / 4};
        std::vector<std::string> domains;
        for (int host = 0; host < count; ++host) {
          for (int i = 0; i <= host * shape % 3; ++i) domains.push_back(std::to_string(host));
        }
        const auto plan = code_groups(domains, wanted);
        if (!plan.is_ok()) continue;
        ++plans;
        std::set<int> seated;
        // Larger ones are only where one group more would leave somebody with too few.
        const auto groups = static_cast<int>(plan.value().groups.size());
        const bool no_more = (groups + 1) * (wanted.parity + 1) > static_cast<int>(domains.size());
        for (const CodeGroup& group : plan.value().groups) {
          std::set<std::string> distinct;
          for (const int rank : group.ranks) {
            CHECK(seated.insert(rank).second);
            distinct.insert(domains[static_cast<std::size_t>(rank)]);
          }
          CHECK(distinct.size() == group.ranks.size());
          CHECK(group.parity == wanted.parity);
          CHECK(group.data() >= 1);
          CHECK((group.data() <= wanted.data || no_more));
        }
        CHECK(seated.size() == domains.size());
      }
    }
  }
  CHECK(plans > 200);
}

TEST_CASE("a code that cannot be is refused with what is accepted") {
  const auto four = even_hosts(4, 1);
  const auto text = [&](int k, int m, const std::vector<std::string>& domains) {
    const auto plan = code_groups(domains, {k, m});
    return plan.is_ok() ? std::string("accepted") : plan.status().message();
  };
  CHECK(text(4, 1, four) ==
        "code (4, 1) needs 5 hosts, there are 4; accepted are as many parts as hosts or fewer: "
        "lower the first number");
  CHECK(text(0, 1, four) == "code (0, 1): accepted are 1 data part or more");
  CHECK(text(3, -1, four) == "code (3, -1): accepted are 1 parity part or more, or 0 for no code");
  CHECK(text(250, 7, four) == "code (250, 7): accepted are at most 256 parts together");
  CHECK(text(1, 1, hosts({"a", "a", "a", "b"})) ==
        "code (1, 1): one host has 3 of 4 ranks, and each of them needs 1 others of other hosts; "
        "accepted are fewer parities, or ranks that are spread more evenly");
  CHECK(text(1, 0, {}) == "0 ranks; accepted are 1 or more");
}

TEST_CASE("no code leaves everybody alone, and says so") {
  const auto plan = code_groups(hosts({"a", "a", "b"}), {3, 0}).value();
  CHECK(ranks_of(plan) == std::vector<std::vector<int>>{{0}, {1}, {2}});
  CHECK(plan.said.starts_with("no code: "));
}

TEST_CASE("with fewer hosts a code has fewer data parts") {
  CHECK(code_for_hosts(3, {3, 1}).value().data == 2);
  CHECK(code_for_hosts(2, {3, 1}).value().data == 1);
  CHECK(code_for_hosts(9, {3, 1}).value().data == 3);
  CHECK(code_for_hosts(1, {3, 1}).status().message() ==
        "code (3, 1) on 1 hosts; accepted are fewer parities than hosts");
}

TEST_CASE("a lost member takes one part of each codeword along") {
  for (int k = 1; k <= 5; ++k) {
    for (int m = 0; m <= 4; ++m) {
      const CodePlaces places(k, m);
      for (int codeword = 0; codeword < places.members(); ++codeword) {
        std::set<int> columns;
        std::set<int> rows;
        for (int member = 0; member < places.members(); ++member) {
          const CodePlace place = places.place(member, codeword);
          CHECK((place.is_parity ? rows : columns).insert(place.index).second);
          if (place.is_parity) {
            CHECK(places.member_of_row(codeword, place.index) == member);
            CHECK(places.codeword_of_row(member, place.index) == codeword);
          } else {
            CHECK(places.member_of_column(codeword, place.index) == member);
            CHECK(places.codeword_of_slice(member, place.index) == codeword);
          }
        }
        CHECK(static_cast<int>(columns.size()) == k);
        CHECK(static_cast<int>(rows.size()) == m);
      }
    }
  }
}

TEST_CASE("smaller bodies count as if zeros followed") {
  const CodeSizes sizes(CodePlaces(2, 1), 10, {45, 12, 0});
  CHECK(sizes.slice_tiles() == 3);
  CHECK(sizes.slice(0, 0) == ByteSpan{0, 30});
  CHECK(sizes.slice(0, 1) == ByteSpan{30, 45});
  CHECK(sizes.slice(1, 0) == ByteSpan{0, 12});
  CHECK(sizes.slice(1, 1).size() == 0);
  CHECK(sizes.slice(2, 0).size() == 0);
  std::uint64_t rows = 0;
  std::uint64_t parity = 0;
  for (int i = 0; i < 3; ++i) {
    rows += sizes.row_bytes(i);
    parity += sizes.parity_bytes(i);
  }
  CHECK(rows == parity);
  CHECK(sizes.row_bytes(CodePlaces(2, 1).codeword_of_slice(0, 0)) == 30);
}

}  // namespace
}  // namespace holdfast::ft
