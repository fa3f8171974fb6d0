// Where a newcomer belongs, and who is on which host.
#include "group/admission.h"

#include <doctest/doctest.h>

#include "group/host_numbers.h"
#include "quiet_network.h"
#include "topology/link_map.h"

namespace holdfast::ft {
namespace {

constexpr MemberId kA{1};
constexpr MemberId kSelf{2};
constexpr MemberId kC{3};

struct LateJoin {
  LateJoin() {
    view.epoch = {4};
    view.members = {kA, kSelf, kC};
    view.cards = {"a/x", "a/x", "b"};
  }
  void report(MemberId from, group::GroupIdentity group, std::uint64_t next) {
    group::GroupReport report;
    report.group = std::make_shared<const group::GroupIdentity>(std::move(group));
    report.next_sequence = next;
    reports.emplace_back(from, std::make_shared<const std::vector<group::GroupReport>>(1, report));
  }
  std::optional<group::GroupConfig> find(const std::string& name) const {
    group::GroupConfig base;
    base.name = name;
    return group::admission(base, {view, reports, entered, kSelf, Rank{1}});
  }
  WorldView view;
  group::WorldReports reports;
  std::set<CommId> entered;
};

TEST_CASE("a newcomer's part is what the members before it report") {
  LateJoin arrival;
  arrival.report(kA, {{7}, "job", {{0}, {1}}, true, false}, 12);
  const auto config = arrival.find("job");
  REQUIRE(config);
  CHECK(config->id == CommId{7});
  CHECK(config->rank == Rank{1});
  CHECK(config->members == std::vector<MemberId>{kA, kSelf});
  CHECK(config->joined == std::vector<Rank>{{1}});
  CHECK(config->next_sequence == 12);
  CHECK(config->epoch == Epoch{4});
  CHECK(config->newcomer);
  CHECK_FALSE(arrival.find("other"));
}

TEST_CASE("a newcomer goes by the map that the members have taken") {
  LateJoin arrival;
  group::GroupIdentity job{{7}, "job", {{0}, {1}}, true, false};
  job.map_version = 3;
  job.map = std::make_shared<const std::string>(
      R"({"format": 1, "ranks": 2, "gbit_per_s": 1, "alpha_us": 5})");
  arrival.report(kA, job, 12);
  const auto config = arrival.find("job");
  REQUIRE(config);
  CHECK(config->map.version == 3);
  REQUIRE(config->map.map);
  CHECK(config->map.map->size() == 2);
  CHECK(config->map.text == job.map);
}

TEST_CASE("what is no map is none") {
  LateJoin arrival;
  group::GroupIdentity job{{7}, "job", {{0}, {1}}, true, false};
  job.map_version = 3;
  job.map = std::make_shared<const std::string>("{}");
  arrival.report(kA, job, 12);
  CHECK(arrival.find("job")->map.version == 0);
}

TEST_CASE("a group of the whole world has the ranks that came later, too") {
  LateJoin arrival;
  arrival.report(kA, {{7}, "job", {{0}, {1}}, true, true}, 12);
  CHECK(arrival.find("job")->members == std::vector<MemberId>{kA, kSelf, kC});
}

TEST_CASE("no part is found twice, nor in a group of other ranks") {
  LateJoin arrival;
  arrival.report(kA, {{7}, "job", {{0}, {2}}, true, false}, 12);
  CHECK_FALSE(arrival.find("job"));
  arrival.report(kA, {{8}, "rest", {{0}, {1}}, true, false}, 12);
  arrival.entered.insert({8});
  CHECK_FALSE(arrival.find("rest"));
}

TEST_CASE("the founder of a world's group has all of its ranks") {
  const LateJoin arrival;
  const group::GroupConfig config = group::founding({}, {9}, arrival.view, {1});
  CHECK(config.id == CommId{9});
  CHECK(config.members == arrival.view.members);
  CHECK(config.world_ranks == std::vector<Rank>{{0}, {1}, {2}});
  CHECK(config.whole);
}

TEST_CASE("hosts are numbered as they appear, and memory is shared by all or by nobody") {
  const QuietNetwork network;
  LateJoin arrival;
  CHECK(group::number_hosts(arrival.view, {{2}, {0}, {1}}, network) == std::vector<int>{0, 1, 1});
  CHECK(may_share(arrival.view, {{0}, {1}}, network));
  CHECK_FALSE(may_share(arrival.view, {{0}, {1}, {2}}, network));
  arrival.view.members[2] = kNobody;
  CHECK(may_share(arrival.view, {{0}, {1}, {2}}, network));
}

TEST_CASE("domains around hosts are numbered by level, and a host has those of its lowest rank") {
  using Words = group::CardWords::Words;
  const std::vector<Words> words = {{"h0", "a/rack-1", ""}, {"h1", "b/rack-1", ""},
                                    {"h2", "a/rack-2", ""}, {"h3", "", ""},
                                    {"h0", "b", ""},        {"h4", "b", ""}};
  const std::vector<Rank> all = {{0}, {1}, {2}, {3}, {4}, {5}};
  CHECK(group::number_domains(words, all) ==
        std::vector<std::vector<int>>{
            {0, 0, 0}, {1, 0, 1}, {0, 1, 2}, {2, 2, 3}, {0, 0, 0}, {1, 2, 4}});
  CHECK(group::number_domains(words, {{3}, {4}}) == std::vector<std::vector<int>>{{0, 0}, {1, 1}});
  CHECK(group::number_domains(words, {{3}}) == std::vector<std::vector<int>>{{0}});
}

}  // namespace
}  // namespace holdfast::ft
