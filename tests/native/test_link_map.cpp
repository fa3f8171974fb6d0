// The map of links: both of its forms, what is left without some ranks, and what is refused.
#include "topology/link_map.h"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "topology/forest/plan.h"

namespace holdfast::topology {
namespace {

constexpr const char* kPairs = R"({
  "format": 1, "ranks": 3,
  "domains": [["a", "h1"], ["a", "h2"], ["b"]],
  "gbit_per_s": [[0, 1, 0.2], [1, 0, 0.2], [0.25, 0.25, 0]],
  "alpha_us": 12.5,
  "gamma_s_per_gbyte": 0.08,
  "shared": [{"name": "line", "gbit_per_s": 0.3, "from": [1, 0], "to": [2]}]
})";

LinkMap read(const std::string& json) {
  Result<LinkMap> map = LinkMap::parse(json);
  REQUIRE_MESSAGE(map.is_ok(), map.status().message());
  return std::move(map).value();
}

TEST_CASE("a map of pairs is read in whole numbers") {
  const LinkMap map = read(kPairs);
  CHECK(map.size() == 3);
  CHECK(map.domains(0) == std::vector<std::string>{"a", "h1"});
  CHECK(map.alpha_ns(0, 2) == 12'500);
  CHECK(map.alpha_ns(1, 1) == 0);
  const Capacities& c = map.capacities();
  CHECK(c.kbit_per_s[c.pair(0, 2)] == 200'000);
  CHECK(c.kbit_per_s[c.pair(2, 1)] == 250'000);
  CHECK(map.gamma_ns_per_gbyte() == 80'000'000);
  REQUIRE(c.shared.size() == 1);
  CHECK(c.shared[0] == SharedCapacity{"line", 300'000, {0, 1}, {2}});
}

TEST_CASE("levels give every domain its way out and in") {
  const LinkMap map = read(R"({"format": 1, "levels": [
    {"name": "site", "count": 2, "gbit_per_s": 0.2, "alpha_us": 10000},
    {"name": "host", "count": 1, "gbit_per_s": 1, "alpha_us": 100},
    {"name": "rank", "count": 3, "gbit_per_s": 40, "alpha_us": 2}]})");
  CHECK(map.size() == 6);
  CHECK(map.domains(4) == std::vector<std::string>{"site-1", "host-1"});
  CHECK(map.alpha_ns(0, 1) == 2'000);
  CHECK(map.alpha_ns(2, 3) == 10'000'000);
  // Two sites and six ranks, out and in; a level of one domain in its parent has none.
  CHECK(map.capacities().shared.size() == 2 * (2 + 6));
  CHECK(map.capacities().shared[0] == SharedCapacity{"site-0 out", 200'000, {0, 1, 2}, {3, 4, 5}});
  CHECK(map.capacities().shared[1] == SharedCapacity{"site-0 in", 200'000, {3, 4, 5}, {0, 1, 2}});
}

TEST_CASE("without a rank the others keep what they had") {
  const LinkMap map = read(kPairs);
  const int gone[] = {0};
  const LinkMap left = map.without(gone);
  CHECK(left.size() == 2);
  CHECK(left.domains(0) == std::vector<std::string>{"a", "h2"});
  CHECK(left.capacities().kbit_per_s[left.capacities().pair(0, 1)] == 200'000);
  REQUIRE(left.capacities().shared.size() == 1);
  CHECK(left.capacities().shared[0] == SharedCapacity{"line", 300'000, {0}, {1}});
  const int last[] = {2};
  CHECK(map.without(last).capacities().shared.empty());
}

TEST_CASE("the digest tells maps apart, and no spelling of one") {
  const LinkMap map = read(kPairs);
  std::string other = kPairs;
  other.replace(other.find("0.3"), 3, "3e-1");
  CHECK(read(other).digest() == map.digest());
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"12.5", "12.6"},
                                                        {"\"h2\"", "\"h3\""},
                                                        {"0.3", "0.4"},
                                                        {"0.08", "0.09"},
                                                        {"[1, 0], \"to\"", "[1], \"to\""}}) {
    std::string changed = kPairs;
    changed.replace(changed.find(from), from.size(), to);
    const bool differs = read(changed).digest() != map.digest();
    CHECK_MESSAGE(differs, changed);
  }
}

TEST_CASE("a map's own text is the map again, and the same text") {
  for (const char* json :
       {kPairs, R"({"format": 1, "ranks": 3, "gbit_per_s": 0.000001, "alpha_us": 0.001})",
        R"({"format": 1, "levels": [
          {"name": "si\"te", "count": 2, "gbit_per_s": 0.25, "alpha_us": 1000.5},
          {"name": "rank", "count": 3, "gbit_per_s": 1, "alpha_us": 100}],
          "gamma_s_per_gbyte": 0.125})"}) {
    const LinkMap map = read(json);
    const std::string text = map.to_json();
    CHECK(text.find('\n') == std::string::npos);
    const LinkMap again = read(text);
    CHECK(again.digest() == map.digest());
    CHECK(again.to_json() == text);
  }
  CHECK(read(R"({"format": 1, "ranks": 2, "gbit_per_s": 2.5, "alpha_us": 1e3})").to_json() ==
        R"({"format": 1, "ranks": 2, "gbit_per_s": 2.5, "alpha_us": 1000})");
}

TEST_CASE("a plan says what decides, and who holds the others up") {
  const LinkMap map = read(R"({"format": 1, "ranks": 4, "gbit_per_s": 1, "alpha_us": 1000,
    "shared": [{"name": "modem out", "gbit_per_s": 0.01, "from": [3], "to": [0, 1, 2]}]})");
  const auto plan = plan_forest(map, {}, 10'000'000);
  REQUIRE(plan.is_ok());
  CHECK(plan.value().decides == "\"modem out\"");
  CHECK(plan.value().why.find("without rank 3") != std::string::npos);
  // 80 Mbit over 10 Mbit/s, and a hop up and one down at least.
  CHECK(plan.value().bound_s == doctest::Approx(8).epsilon(0.01));
  CHECK(plan.value().predicted_s >= plan.value().bound_s + plan.value().latency_s - 1e-9);
  CHECK(plan.value().latency_s >= 0.002);
  const ForestTask beyond{.up = false, .down = true, .root = 4};
  CHECK(plan_forest(map, beyond, 1).status().message() == "root is 4; accepted: 0 to 3");
}

using Refusal = std::pair<const char*, const char*>;  // JSON, and a part of what is said of it

void expect_refused(std::span<const Refusal> cases) {
  for (const auto& entry : cases) {
    const std::string json = entry.first;
    const std::string told = entry.second;
    const Result<LinkMap> map = LinkMap::parse(json);
    CAPTURE(json);
    REQUIRE_FALSE(map.is_ok());
    CHECK(map.status().code() == Code::kConfigError);
    const std::string& message = map.status().message();
    CHECK_MESSAGE(message.rfind("topology: ", 0) == 0, message);
    CHECK_MESSAGE(message.find(told) != std::string::npos, message);
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("what cannot be used is refused by the key's name") {
  const Refusal cases[] = {
      {"", "line 1: the text ends"},
      {"[]", "the document: a list of 0; accepted: an object"},
      {"{}", "format: it is missing; accepted: 1"},
      {R"({"format": 2})", "format: 2; accepted: 1"},
      {R"({"format": 1})", "ranks: it is missing"},
      {R"({"format": 1, "ranks": 1})", "ranks: 1; accepted: a whole number from 2 to 1024"},
      {R"({"format": 1, "ranks": 2.5})", "ranks: 2.5;"},
      {R"({"format": 1, "ranks": 1e9})", "ranks: 1e+09;"},
      {R"({"format": 1, "ranks": 2})", "gbit_per_s: it is missing"},
      {R"({"format": 1, "ranks": 2, "speed": 1})", "\"speed\": no such key; accepted: format, "},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": NaN})", "line 1: \"NaN}\"; expected: a value"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": -1, "alpha_us": 1})", "gbit_per_s: -1;"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": 1e9, "alpha_us": 1})", "gbit_per_s: 1e+09;"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": 1e999, "alpha_us": 1})", "that a double holds"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": 0, "alpha_us": 1})", "gbit_per_s: there is no"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": [[0, 1]], "alpha_us": 1})",
       "gbit_per_s: a list of 1; accepted: a list of 2 rows"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": [[0, 1], [1]], "alpha_us": 1})",
       "gbit_per_s[1]: a list of 1; accepted: a list of 2 numbers"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": [[0, 1], ["1", 0]], "alpha_us": 1})",
       "gbit_per_s[1][0]: \"1\"; accepted: a number"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": 1, "alpha_us": true})", "alpha_us: true or"},
      {R"({"format": 1, "ranks": 2, "domains": [[]], "gbit_per_s": 1, "alpha_us": 1})",
       "domains: a list of 1; accepted: a list of 2 paths"},
      {R"({"format": 1, "ranks": 2, "domains": [["a"], [7]], "gbit_per_s": 1, "alpha_us": 1})",
       "domains[1][0]: 7; accepted: a string of 1 to 64 bytes"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": 1, "alpha_us": 1, "shared": [{"name": "x"}]})",
       "shared[0].gbit_per_s: it is missing"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": 1, "alpha_us": 1,
          "shared": [{"name": "x", "gbit_per_s": 1, "from": [0], "to": [2]}]})",
       "shared[0].to[0]: 2; accepted: a whole number from 0 to 1"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": 1, "alpha_us": 1,
          "shared": [{"name": "x", "gbit_per_s": 1, "from": [0, 0], "to": [1]}]})",
       "shared[0].from: rank 0 stands twice"},
      {R"({"format": 1, "ranks": 2, "gbit_per_s": 1, "alpha_us": 1,
          "shared": [{"name": "x", "gbit_per_s": 0, "from": [0], "to": [1]}]})",
       "shared[0].gbit_per_s: 0;"},
      {R"({"format": 1, "levels": []})", "levels: a list of 0; accepted: a list of 1 to 8"},
      {R"({"format": 1, "levels": [{"name": "x", "count": 1, "gbit_per_s": 1, "alpha_us": 1}]})",
       "levels: 1 ranks by their counts; accepted: 2 to 1024"},
      {R"({"format": 1, "levels": [{"name": "x", "count": 1000, "gbit_per_s": 1, "alpha_us": 1},
          {"name": "y", "count": 1000, "gbit_per_s": 1, "alpha_us": 1}]})",
       "levels: 1000000 ranks"},
      {R"({"format": 1, "ranks": 3,
          "levels": [{"name": "x", "count": 2, "gbit_per_s": 1, "alpha_us": 1}]})",
       "ranks: 3, where the levels' counts make 2"},
      {R"({"format": 1, "gbit_per_s": 1,
          "levels": [{"name": "x", "count": 2, "gbit_per_s": 1, "alpha_us": 1}]})",
       "gbit_per_s: it stands beside levels"},
      {R"({"format": 1, "format": 1})", "the field \"format\" stands twice"},
      {R"({"format": 1} x)", "the text goes on after its value"},
      {"[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]", "nested deeper than 16"},
  };
  expect_refused(cases);
}

TEST_CASE("an error has one line, whatever the names") {
  const Refusal cases[] = {
      {R"({"two\nlines": 1})", "\"two?lines\": no such key; accepted: format, "},
      {R"({"a\nb": 1, "a\nb": 1})", "the field \"a?b\" stands twice"},
      {R"({"a\nb" 1})", "\"1}\"; expected: \":\" after \"a?b\""},
      {R"({"format": 1, "ranks": 2, "domains": [["a\nb"], ["c"]], "alpha_us": 1, "gbit_per_s": 1})",
       "domains[0][0]: \"a?b\"; accepted: a string of 1 to 64 bytes without control characters"},
  };
  expect_refused(cases);
}

}  // namespace
}  // namespace holdfast::topology
