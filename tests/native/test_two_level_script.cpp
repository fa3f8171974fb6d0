// Scripts of calls in two levels, run for all ranks over plain memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "comm/schedule/places.h"
#include "device_comm/two_level/script.h"

namespace holdfast::testing {
namespace {

using comm::Collective;
using device_comm::Cut;
using device_comm::DirectShape;
using device_comm::TwoLevelAction;
using device_comm::TwoLevelPlace;
using device_comm::TwoLevelPlan;
using device_comm::TwoLevelScript;
using device_comm::TwoLevelSpace;

using Numbers = std::vector<std::uint32_t>;
constexpr std::uint32_t kUnwritten = 0xdead'beef;

std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }

// A call, as all ranks see it: elements of four bytes.
struct Case {
  Collective collective{};
  std::vector<int> hosts;
  std::vector<Rank> ranks;
  std::vector<std::uint64_t> blocks;  // elements; of a vector, one
  Rank root{};

  int size() const { return static_cast<int>(hosts.size()); }
  bool by_rank_in() const { return collective == Collective::kReduceScatter; }
  bool by_rank_out() const { return collective == Collective::kAllGather; }
  bool folds() const {
    return collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
  }
  std::uint64_t block(Rank rank) const { return blocks[blocks.size() == 1 ? 0 : index(rank)]; }

  DirectShape shape(Rank rank) const {
    DirectShape shape{collective, 4, root, rank, size(), {}, {}};
    for (int r = 0; r < (by_rank_in() ? size() : 1); ++r) {
      shape.input.push_back(4 * block(by_rank_in() ? Rank{r} : rank));
    }
    for (int r = 0; r < (by_rank_out() ? size() : 1); ++r) {
      shape.output.push_back(4 * block(by_rank_out() ? Rank{r} : rank));
    }
    return shape;
  }
};

std::uint64_t sum(const std::vector<std::uint64_t>& values) {
  std::uint64_t all = 0;
  for (const std::uint64_t value : values) all += value;
  return all;
}

// Element i of a rank's input: a multiple of the number of ranks, for averages.
std::uint32_t value(const Case& c, Rank rank, std::uint64_t i) {
  return static_cast<std::uint32_t>(c.ranks.size() * (1000 * (index(rank) + 1) + i));
}

struct Player {
  TwoLevelScript script;
  std::map<TwoLevelSpace, Numbers> memory;
};
using Players = std::map<int, Player>;

Players players_of(const Case& c) {
  Players players;
  for (const Rank rank : c.ranks) {
    const DirectShape shape = c.shape(rank);
    Player& player = players[rank.value];
    player.script = device_comm::two_level_script(shape, c.hosts, c.ranks);
    Numbers& input = player.memory[TwoLevelSpace::kInput];
    for (std::uint64_t i = 0; i < sum(shape.input) / 4; ++i) input.push_back(value(c, rank, i));
    player.memory[TwoLevelSpace::kResult].assign(sum(shape.output) / 4, kUnwritten);
    player.memory[TwoLevelSpace::kParts].assign(player.script.parts_bytes / 4, kUnwritten);
    player.memory[TwoLevelSpace::kHost].assign(player.script.host_bytes / 4, kUnwritten);
  }
  return players;
}

// What others have is what they had before the phase: in it nobody waits for anybody.
void act(const Case& c, Player& own, Rank rank, const Players& before,
         const TwoLevelAction& action) {
  REQUIRE(action.to.rank == rank);
  REQUIRE(action.to.space != TwoLevelSpace::kInput);
  REQUIRE(action.bytes > 0);
  Numbers total(action.bytes / 4, 0);
  for (const TwoLevelPlace& place : action.from) {
    const bool is_own = place.rank == rank;
    const bool is_mapped =
        place.space == TwoLevelSpace::kInput || place.space == TwoLevelSpace::kResult;
    // Nobody reads another host's memory, or another rank's own.
    REQUIRE((is_own || (is_mapped && c.hosts[index(place.rank)] == c.hosts[index(rank)])));
    const Player& from = is_own ? own : before.at(place.rank.value);
    const Numbers& memory = from.memory.at(place.space);
    REQUIRE(place.at / 4 + total.size() <= memory.size());
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += memory[place.at / 4 + i];
  }
  Numbers& to = own.memory.at(action.to.space);
  REQUIRE(action.to.at / 4 + total.size() <= to.size());
  for (std::size_t i = 0; i < total.size(); ++i) {
    const auto divisor = action.last ? static_cast<std::uint32_t>(c.ranks.size()) : 1;
    to[action.to.at / 4 + i] = total[i] / divisor;
  }
}

// Bytes that leave each rank for other hosts.
std::map<int, std::uint64_t> exchange(const Case& c, Players& players, std::size_t number) {
  const Players before = players;
  std::map<int, std::uint64_t> sent_bytes;
  for (const Rank from : c.ranks) {
    for (const Rank to : c.ranks) {
      const Cut sent = before.at(from.value).script.exchanges[number].sent[index(to)];
      const Cut got = before.at(to.value).script.exchanges[number].received[index(from)];
      REQUIRE(sent.bytes == got.bytes);
      if (sent.bytes == 0) continue;
      REQUIRE(c.hosts[index(from)] != c.hosts[index(to)]);
      const Numbers& source = before.at(from.value).memory.at(TwoLevelSpace::kHost);
      Numbers& target = players.at(to.value).memory.at(TwoLevelSpace::kHost);
      REQUIRE(sent.end() / 4 <= source.size());
      REQUIRE(got.end() / 4 <= target.size());
      for (std::uint64_t i = 0; i < sent.bytes / 4; ++i) {
        target[got.at / 4 + i] = source[sent.at / 4 + i];
      }
      sent_bytes[from.value] += sent.bytes;
    }
  }
  return sent_bytes;
}

std::map<int, std::uint64_t> play(const Case& c, Players& players) {
  std::map<int, std::uint64_t> sent;
  const auto steps = *device_comm::two_level_steps(c.collective);
  for (std::size_t phase = 0; phase < steps.exchanges + steps.votes; ++phase) {
    const Players before = players;
    for (auto& [rank, player] : players) {
      const TwoLevelScript script = player.script;
      REQUIRE(script.exchanges.size() == steps.exchanges);
      REQUIRE(script.phases.size() == steps.exchanges + steps.votes);
      for (const TwoLevelAction& action : script.phases[phase]) {
        act(c, player, {rank}, before, action);
      }
    }
    if (phase >= steps.exchanges) continue;
    for (const auto& [rank, bytes] : exchange(c, players, phase)) sent[rank] += bytes;
  }
  return sent;
}

Numbers expected(const Case& c, Rank rank) {
  Numbers all;
  if (c.collective == Collective::kAllGather) {
    for (int r = 0; r < c.size(); ++r) {
      const bool there = std::find(c.ranks.begin(), c.ranks.end(), Rank{r}) != c.ranks.end();
      for (std::uint64_t i = 0; i < c.block({r}); ++i) all.push_back(there ? value(c, {r}, i) : 0);
    }
    return all;
  }
  std::uint64_t begin = 0;
  for (int r = 0; c.by_rank_in() && r < rank.value; ++r) begin += c.block({r});
  for (std::uint64_t i = 0; i < c.block(rank); ++i) {
    std::uint32_t total = 0;
    for (const Rank from : c.ranks) total += value(c, from, begin + i);
    all.push_back(c.folds() ? total / static_cast<std::uint32_t>(c.ranks.size())
                            : value(c, c.root, i));
  }
  return all;
}

void check(const Case& c) {
  CAPTURE(static_cast<int>(c.collective));
  Players players = players_of(c);
  play(c, players);
  for (const auto& [rank, player] : players) {
    // The root's array is its input, and stays as it is.
    if (c.collective == Collective::kBroadcast && Rank{rank} == c.root) continue;
    CHECK(player.memory.at(TwoLevelSpace::kResult) == expected(c, {rank}));
  }
}

std::vector<Rank> all_but(std::size_t size, const std::vector<int>& gone) {
  std::vector<Rank> ranks;
  for (int r = 0; r < static_cast<int>(size); ++r) {
    if (std::find(gone.begin(), gone.end(), r) == gone.end()) ranks.push_back({r});
  }
  return ranks;
}

const std::vector<std::vector<int>>& layouts() {
  static const std::vector<std::vector<int>> all{{0, 0, 1, 1},
                                                 {0, 0, 0, 1},
                                                 {0, 1, 1},
                                                 {0, 1, 0, 1, 1},
                                                 {0, 0, 1, 1, 2, 2, 2},
                                                 {0, 1, 2, 2, 2, 1, 0, 2},
                                                 {0, 1, 2},
                                                 {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}};
  return all;
}

TEST_CASE("scripts of all ranks give the result, on hosts of any shape, whoever is left") {
  for (const std::vector<int>& hosts : layouts()) {
    const auto last = static_cast<int>(hosts.size()) - 1;
    for (const std::vector<int>& gone : {std::vector<int>{}, {0}, {last}, {0, 1}}) {
      const std::vector<Rank> ranks = all_but(hosts.size(), gone);
      for (const std::uint64_t count : {0ULL, 1ULL, 127ULL, 128ULL, 1001ULL, 5000ULL}) {
        CAPTURE(hosts.size());
        CAPTURE(count);
        check({Collective::kAllReduce, hosts, ranks, {count}});
        for (const Rank root : ranks) check({Collective::kBroadcast, hosts, ranks, {count}, root});
        std::vector<std::uint64_t> blocks;
        for (std::size_t r = 0; r < hosts.size(); ++r) blocks.push_back(count * (r % 3) + r);
        check({Collective::kReduceScatter, hosts, ranks, blocks});
        check({Collective::kAllGather, hosts, ranks, blocks});
      }
    }
  }
}

TEST_CASE("each byte crosses to a host once, and the ranks of a host share what they send") {
  constexpr std::uint64_t kCount = 3 * 4 * 128 * 10;
  const std::vector<int> hosts{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
  const std::vector<Rank> ranks = all_but(hosts.size(), {});
  const auto sent = [&](Collective collective, std::vector<std::uint64_t> blocks) {
    const Case c{collective, hosts, ranks, std::move(blocks), {5}};
    Players players = players_of(c);
    return play(c, players);
  };
  const std::vector<std::uint64_t> blocks(hosts.size(), kCount / hosts.size());
  for (const Rank rank : ranks) {
    CAPTURE(rank.value);
    // Of each column, a quarter, two thirds twice.
    CHECK(sent(Collective::kAllReduce, {kCount})[rank.value] == kCount * 4 / 4 * 2 / 3 * 2);
    // What eight ranks elsewhere get, shared by four; to two hosts, what one gives.
    CHECK(sent(Collective::kReduceScatter, blocks)[rank.value] == 2 * kCount * 4 / 12);
    CHECK(sent(Collective::kAllGather, blocks)[rank.value] == 2 * kCount * 4 / 12);
    const std::uint64_t column = rank.value >= 4 && rank.value < 8 ? kCount * 4 / 4 : 0;
    CHECK(sent(Collective::kBroadcast, {kCount})[rank.value] == 2 * column);
  }
}

TEST_CASE("who is not there has nothing to do, and a root that is gone nobody") {
  const DirectShape shape{Collective::kBroadcast, 4, {0}, {2}, 4, {400}, {400}};
  const TwoLevelScript script = device_comm::two_level_script(shape, {0, 0, 1, 1}, {{1}, {2}, {3}});
  for (const auto& phase : script.phases) CHECK(phase.empty());
  for (const Cut& run : script.exchanges.at(0).sent) CHECK(run.bytes == 0);
  CHECK(script.host_bytes + script.parts_bytes == 0);
  CHECK(!device_comm::two_level_steps(Collective::kAllToAll));
}

TEST_CASE("columns and parts cover the vector once, and ranks in turns have their hosts") {
  for (const std::vector<int>& hosts : layouts()) {
    for (const std::uint64_t bytes : {1ULL, 512ULL, 513ULL, 5000ULL, 1'000'003ULL}) {
      const TwoLevelPlan plan =
          device_comm::two_level_plan(hosts, all_but(hosts.size(), {}), bytes);
      std::uint64_t at = 0;
      for (std::size_t c = 0; c < plan.columns; ++c) {
        CHECK(plan.column(c).at == at);
        for (std::size_t h = 0; h < plan.hosts.size(); ++h) {
          CHECK(plan.part(c, h).at == at);
          at = plan.part(c, h).end();
          CHECK(plan.host_of(plan.owner(c, h)) == h);
          CHECK(plan.column_of(plan.owner(c, h)) == c);
        }
        CHECK(plan.column(c).end() == at);
      }
      CHECK(at == bytes);
    }
  }
  const TwoLevelPlan plan = device_comm::two_level_plan({0, 1, 0, 1, 1}, all_but(5, {}), 4096);
  CHECK(plan.hosts == std::vector<device_comm::HostRanks>{{{0}, {2}}, {{1}, {3}, {4}}});
  CHECK(plan.columns == 2);
  CHECK(!plan.column_of({4}));
}

TEST_CASE("there are levels where several hosts are, and a rank that has company") {
  const auto levels = [](const std::vector<int>& host_of) {
    return comm::has_levels(comm::spread_of(host_of));
  };
  CHECK(levels({0, 1, 0}));
  CHECK(levels({0, 1, -1, 1}));
  CHECK(!levels({0, 1, 2}));
  CHECK(!levels({0, 0}));
  CHECK(!levels({0, -1, -1}));
  CHECK(!levels({}));
}

}  // namespace
}  // namespace holdfast::testing
