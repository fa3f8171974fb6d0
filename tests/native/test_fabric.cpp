// Fabric: domains of any depth, size and numbering, what is asked of them, and what is refused.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "fabrics.h"

namespace holdfast::topology {
namespace {

using testing::on_devices;
using testing::on_hosts;
using testing::on_sites;

constexpr LinkModel kFar{1e-2, 1e-8, 0};
constexpr LinkModel kNear{1e-5, 1e-9, 0};
constexpr LinkModel kInside{1e-6, 1e-10, 0};

std::vector<Rank> ranks(const std::vector<int>& numbers) {
  std::vector<Rank> all;
  for (const int r : numbers) all.push_back({r});
  return all;
}

std::vector<Rank> members(const Fabric& fabric, int level, int domain) {
  const auto found = fabric.members(level, domain);
  return {found.begin(), found.end()};
}

// Two sites: one of a host with three ranks, one of hosts with one and two, numbered crosswise.
Fabric three_levels() {
  return Fabric::make({{"all", kFar}, {"site", kNear, 1e-8}, {"host", kInside}},
                      {{7, 1}, {3, 1}, {7, 1}, {3, 9}, {7, 1}, {3, 9}})
      .value();
}

TEST_CASE("hosts in larger domains: the innermost level with several ranks to a domain is wide") {
  // Two sites of three hosts with a rank each.
  const std::vector<std::vector<int>> lone = {{0, 0}, {1, 1}, {0, 2}, {1, 3}, {0, 4}, {1, 5}};
  const Fabric sites = Fabric::of_domains(lone, kTcpLink).value();
  CHECK(sites.depth() == 2);
  CHECK(sites.wide_level() == 1);
  CHECK(sites.domain_of({2}, 1) == sites.domain_of({0}, 1));
  CHECK(sites.level(1).link == kTcpLink);
  CHECK(sites.level(2).link == kShmLink);
  // With two ranks to a host, hosts are.
  const Fabric hosts =
      Fabric::of_domains({{0, 0}, {0, 0}, {1, 1}, {1, 1}, {0, 2}, {0, 2}}, kTcpLink).value();
  CHECK(hosts.wide_level() == 2);
  CHECK(hosts.level(2).out_s_per_byte == kTcpLink.beta_s_per_byte);
  // Nothing changes where no domains are known, nor on one host.
  CHECK(Fabric::of_domains({{0}, {0}, {1}}, kTcpLink).value() ==
        Fabric::of_hosts(std::vector{0, 0, 1}, kTcpLink).value());
  CHECK(Fabric::of_domains({{3, 1}, {3, 1}}, kShmLink).value() ==
        Fabric::of_hosts(std::vector{0, 0}, kShmLink).value());
}

TEST_CASE("domains are numbered by their lowest ranks, whatever they are called") {
  const Fabric fabric = three_levels();
  CHECK(fabric.size() == 6);
  CHECK(fabric.depth() == 2);
  CHECK(fabric.domains(0) == 1);
  CHECK(fabric.domains(1) == 2);
  CHECK(fabric.domains(2) == 3);
  CHECK(members(fabric, 0, 0) == ranks({0, 1, 2, 3, 4, 5}));
  CHECK(members(fabric, 1, 0) == ranks({0, 2, 4}));
  CHECK(members(fabric, 1, 1) == ranks({1, 3, 5}));
  CHECK(members(fabric, 2, 1) == ranks({1}));
  CHECK(members(fabric, 2, 2) == ranks({3, 5}));
  CHECK(fabric.domain_of({5}, 2) == 2);
  CHECK(fabric.text().find("((0 2 4)) ((1) (3 5))\n") != std::string::npos);
  // Host 1 of site 3 is not host 1 of site 7, and other numbers make the same fabric.
  CHECK(fabric == Fabric::make({{"all", kFar}, {"site", kNear, 1e-8}, {"host", kInside}},
                               {{0, 0}, {1, 0}, {0, 0}, {1, 1}, {0, 0}, {1, 1}})
                      .value());
  CHECK(fabric != on_sites({{0, 0}, {1, 0}, {0, 0}, {1, 1}, {0, 0}, {1, 1}}));
}

TEST_CASE("two ranks are joined by the link of the innermost domain that both are in") {
  const Fabric fabric = three_levels();
  CHECK(fabric.level_between({0}, {1}) == 0);
  CHECK(fabric.level_between({1}, {3}) == 1);
  CHECK(fabric.level_between({3}, {5}) == 2);
  CHECK(fabric.level_between({5}, {5}) == 2);
  CHECK(fabric.link_between({0}, {1}) == kFar);
  CHECK(fabric.link_between({1}, {3}) == kNear);
  CHECK(fabric.link_between({3}, {5}) == kInside);
  CHECK(fabric.level(1).out_s_per_byte == 1e-8);
  CHECK(!fabric.level(2).out_s_per_byte);
  CHECK(fabric.common_level() == 0);
  CHECK(on_sites({{4, 0}, {4, 0}, {4, 1}}).common_level() == 1);
  CHECK(on_sites({{4, 2}, {4, 2}}).common_level() == 2);
}

TEST_CASE("a level is wide where several domains are, and a rank that has company") {
  CHECK(on_hosts({0, 1, 0}).wide_level() == 1);
  CHECK(!on_hosts({0, 1, 2}).wide_level());
  CHECK(!on_hosts({0, 0}).wide_level());
  CHECK(!Fabric().wide_level());
  CHECK(three_levels().wide_level() == 2);
  CHECK(three_levels().is_wide(1));
  CHECK(!three_levels().is_wide(0));
  // The innermost one counts: hosts of one rank are none, and a device is no company.
  CHECK(on_sites({{0, 0}, {0, 1}, {1, 0}}).wide_level() == 1);
  CHECK(on_devices({{0, 0}, {0, 0}, {1, 0}}).wide_level() == 2);
  CHECK(!on_sites({{0, 0}, {1, 0}, {2, 0}}).wide_level());
}

TEST_CASE("a ring leaves each domain once if its ranks are neighbours, and else more often") {
  const Fabric hosts = on_hosts({0, 0, 1, 1, 0});
  CHECK(hosts.crossings(ranks({0, 1, 2, 3, 4}), 1) == std::vector<int>{1, 1});
  CHECK(hosts.crossings(ranks({0, 2, 1, 3, 4}), 1) == std::vector<int>{2, 2});
  CHECK(hosts.crossings(ranks({0, 1, 2, 3, 4}), 0) == std::vector<int>{0});
  CHECK(hosts.crossings(ranks({0, 1, 4}), 1) == std::vector<int>{0, 0});
  CHECK(hosts.crossings(ranks({3}), 1) == std::vector<int>{0, 0});
  CHECK(hosts.crossings({}, 1) == std::vector<int>{0, 0});
  const Fabric sites = three_levels();
  CHECK(sites.crossings(ranks({0, 1, 2, 3, 4, 5}), 1) == std::vector<int>{3, 3});
  CHECK(sites.crossings(ranks({0, 2, 4, 1, 3, 5}), 1) == std::vector<int>{1, 1});
  CHECK(sites.crossings(ranks({0, 2, 4, 1, 3, 5}), 2) == std::vector<int>{1, 1, 1});
}

TEST_CASE("without a map there are hosts, and one link between them or on the only one") {
  const Fabric two = Fabric::of_hosts(std::vector<int>{5, 2, 5}, kFar).value();
  CHECK(two ==
        Fabric::make({{"all", kFar}, {"host", kShmLink, kFar.beta_s_per_byte}}, {{0}, {1}, {0}})
            .value());
  const Fabric one = Fabric::of_hosts(std::vector<int>{2, 2}, kFar).value();
  CHECK(one.link_between({0}, {1}) == kFar);
  CHECK(Fabric::evenly(7, 3, kFar).value() ==
        Fabric::of_hosts(std::vector<int>{0, 0, 0, 1, 1, 2, 2}, kFar).value());
  for (int hosts = 1; hosts <= 40; ++hosts) {
    CHECK(Fabric::evenly(40, hosts, kFar).value().domains(1) == hosts);
  }
}

TEST_CASE("every rank is in one domain of each level, and inner ones are parts of outer ones") {
  for (const Fabric& fabric : testing::fabrics()) {
    CAPTURE(fabric.text());
    for (int level = 0; level <= fabric.depth(); ++level) {
      int count = 0;
      for (int d = 0; d < fabric.domains(level); ++d) {
        const auto in = fabric.members(level, d);
        count += static_cast<int>(in.size());
        REQUIRE(!in.empty());
        for (const Rank rank : in) {
          CHECK(fabric.domain_of(rank, level) == d);
          CHECK(fabric.level_between(rank, in[0]) >= level);
        }
      }
      CHECK(count == fabric.size());
    }
  }
}

std::string refused(const std::vector<FabricLevel>& levels,
                    const std::vector<std::vector<int>>& paths) {
  const auto made = Fabric::make(levels, paths);
  REQUIRE(!made.is_ok());
  CHECK(made.status().code() == Code::kConfigError);
  return made.status().message();
}

TEST_CASE("what is no fabric is refused by level or rank") {
  const FabricLevel all{"all", kFar};
  const auto contains = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  contains(refused({}, {{}}), "0 levels");
  contains(refused(std::vector<FabricLevel>(kMostFabricLevels + 1, all), {{}}), "10 levels");
  contains(refused({all}, {}), "0 ranks");
  contains(refused({all, {"host", kNear}}, {{0}, {}}), "rank 1 is in 0 domains");
  contains(refused({all, {"host", kNear}}, {{0}, {0, 1}}), "rank 1 is in 2 domains");
  contains(refused({all, {"", kNear}}, {{0}}), "level 1: a name of 0 bytes");
  contains(refused({all, {std::string(65, 'x'), kNear}}, {{0}}), "level 1: a name of 65 bytes");
  contains(refused({{"all", kFar, 1e-9}}, {{}}), "way out of the whole");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  contains(refused({all, {"host", {-1, 0, 0}}}, {{0}}), "level 1 (host): alpha_s -1");
  contains(refused({all, {"host", {0, nan, 0}}}, {{0}}), "beta_s_per_byte nan");
  contains(refused({all, {"host", {0, 0, infinite}}}, {{0}}), "gamma_s_per_byte inf");
  contains(refused({all, {"host", kNear, -1e-9}}, {{0}}), "out_s_per_byte -1e-09");
  for (const auto& [n, hosts] : {std::pair{0, 0}, {4, 0}, {4, 5}, {-1, 1}, {(1 << 20) + 1, 1}}) {
    const auto made = Fabric::evenly(n, hosts, kFar);
    REQUIRE(!made.is_ok());
    CHECK(made.status().code() == Code::kConfigError);
  }
  CHECK(!Fabric::of_hosts({}, kFar).is_ok());
  CHECK(!Fabric::evenly(2, 1, LinkModel{nan, 0, 0}).is_ok());
}

TEST_CASE("as many levels and ranks as the limits say are accepted") {
  const std::vector<FabricLevel> levels(kMostFabricLevels, FabricLevel{"level", kNear});
  const std::vector<std::vector<int>> paths = {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 8}};
  const Fabric deep = Fabric::make(levels, paths).value();
  CHECK(deep.depth() == kMostFabricLevels - 1);
  CHECK(deep.level_between({0}, {1}) == deep.depth() - 1);
  CHECK(Fabric::evenly(kMostFabricRanks, 3, kFar).value().size() == kMostFabricRanks);
}

}  // namespace
}  // namespace holdfast::topology
