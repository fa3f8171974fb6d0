// What mending a plan costs after a loss: splicing the trees, proving them, and making one rank's
// schedule; beside it the proof of all ranks' steps, and how far the spliced plan is from one that
// is made from nothing. And what a group does in the end: choosing an all_reduce's row and trees
// after a loss, from what it had and from nothing. Milliseconds are of the processor. A JSON line
// for each number of ranks.
//
//   cmake -DHOLDFAST_TESTS=ON ... && forest_mending [losses [ranks...]]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/plan/map_plans.h"
#include "comm/schedule/verifier.h"
#include "random_maps.h"
#include "topology/forest/proof.h"
#include "topology/forest/splice.h"

namespace holdfast::topology {
namespace {

// Of the processor, so that a busy machine counts for nothing.
double now_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

template <class Work>
double ms_of(Work work) {
  const double start = now_ms();
  work();
  return now_ms() - start;
}

double at(std::vector<double> sorted, double part) {
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

comm::Schedule steps_of(const Forest& forest, int rank, int size) {
  comm::BuildSpec spec;
  spec.collective = comm::Collective::kAllReduce;
  spec.rank = Rank{rank};
  spec.size = size;
  return comm::build_trees(spec, forest.trees);
}

// Cards of mixed rates.
Capacities map_of(testing::Random& random, int ranks) {
  Capacities map;
  map.ranks = ranks;
  map.kbit_per_s.assign(as_index(ranks) * as_index(ranks), 10'000'000);
  testing::add_cards(map, random, 100, 1000);
  return map;
}

Fabric fabric_of(const Capacities& map) {
  const auto list = [](const std::vector<int>& ranks) {
    std::string text;
    for (const int rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
    return "[" + text + "]";
  };
  std::string shared;
  for (const SharedCapacity& c : map.shared) {
    shared += (shared.empty() ? "" : ",") + std::string("{\"name\":\"") + c.name +
              "\",\"gbit_per_s\":" + std::to_string(static_cast<double>(c.kbit_per_s) / 1e6) +
              ",\"from\":" + list(c.from) + ",\"to\":" + list(c.to) + "}";
  }
  const auto parsed =
      LinkMap::parse("{\"format\":1,\"ranks\":" + std::to_string(map.ranks) +
                     ",\"alpha_us\":100,\"gbit_per_s\":10,\"shared\":[" + shared + "]}");
  std::vector<int> hosts;
  for (int r = 0; r < map.ranks; ++r) hosts.push_back(r);
  return Fabric::of_hosts(hosts, kTcpLink)
      .value()
      .on_map(std::make_shared<const LinkMap>(parsed.value()));
}

struct Chosen {
  double from_base_ms = 0;
  double anew_ms = 0;
};

// As a group of these ranks does after it has lost its last one.
Chosen choose(const Capacities& map) {
  constexpr std::uint64_t kBytes = 64 << 20;
  const int last = map.ranks - 1;
  const auto base = std::make_shared<const Fabric>(fabric_of(map));
  const testing::Loss loss = testing::lose(map, {last});
  const Fabric full = fabric_of(loss.left);
  const Fabric at_first = Fabric(full).after(base, loss.place);
  comm::MapPlans plans(nullptr);
  const auto choose_on = [&](const Fabric& fabric) {
    if (plans.of({comm::Collective::kAllReduce, kBytes, fabric}).empty()) std::exit(1);
  };
  choose_on(*base);
  Chosen chosen;
  chosen.from_base_ms = ms_of([&] { choose_on(at_first); });
  chosen.anew_ms = ms_of([&] { choose_on(full); });
  return chosen;
}

void measure(int ranks, int losses) {
  testing::Random random(1);
  const Capacities map = map_of(random, ranks);
  std::optional<Forest> forest;
  const double plan = ms_of([&] { forest = make_forest(map, {}); });
  std::vector<double> splice;
  std::vector<double> all;
  std::vector<double> ratio;
  for (int i = 0; i < losses; ++i) {
    const testing::Loss loss = testing::lose(map, {testing::number(random, 0, ranks - 1)});
    std::optional<Forest> made;
    splice.push_back(ms_of([&] { made = splice_forest(*forest, loss.left, {}, loss.place); }));
    if (!made) std::exit(1);
    all.push_back(splice.back() + ms_of([&] {
                    if (!prove_trees(loss.left, {}, made->trees).is_ok()) std::exit(1);
                    const comm::Schedule own = steps_of(*made, i % (ranks - 1), ranks - 1);
                    if (own.steps.empty()) std::exit(1);
                  }));
    if (i < 3) ratio.push_back(make_forest(loss.left, {})->kbit_per_s / made->kbit_per_s);
  }
  std::vector<comm::Schedule> schedules;
  const double build = ms_of([&] {
    for (int r = 0; r < ranks; ++r) schedules.push_back(steps_of(*forest, r, ranks));
  });
  bool proven = false;
  const double verify = ms_of([&] { proven = comm::verify(schedules).is_ok(); });
  const Chosen chosen = choose(map);
  std::printf(
      "{\"ranks\": %d, \"trees\": %zu, \"losses\": %d, \"plan_ms\": %.1f, \"splice_ms_p50\": %.3f, "
      "\"splice_ms_p99\": %.3f, \"mended_ms_p50\": %.3f, \"mended_ms_p99\": %.3f, "
      "\"of_a_new_plan\": %.3f, \"build_all_ms\": %.1f, \"verify_all_ms\": %.1f, "
      "\"of_the_bound\": %.3f, \"chosen_from_base_ms\": %.3f, \"chosen_anew_ms\": %.1f}\n",
      ranks, forest->trees.size(), losses, plan, at(splice, 0.5), at(splice, 0.99), at(all, 0.5),
      at(all, 0.99), at(ratio, 1), build, verify, forest->bound_kbit_per_s / forest->kbit_per_s,
      chosen.from_base_ms, chosen.anew_ms);
  std::fflush(stdout);
  if (!proven) std::exit(1);
}

}  // namespace
}  // namespace holdfast::topology

int main(int argc, char** argv) {
  const int losses = argc > 1 ? std::atoi(argv[1]) : 1000;
  std::vector<int> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {64, 256};
  for (const int ranks : sizes) {
    if (ranks < 4 || ranks > 1024 || losses < 1) {
      std::fprintf(stderr, "%d ranks, %d losses; accepted: 4 to 1024, and 1 or more\n", ranks,
                   losses);
      return 2;
    }
    holdfast::topology::measure(ranks, losses);
  }
  return 0;
}
