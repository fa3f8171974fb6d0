// What mending a plan costs after a loss: splicing the trees, proving them, and making one rank's
// schedule; beside it the proof of all ranks' steps, and how far the spliced plan is from one that
// is made from nothing. Milliseconds are of the processor. A JSON line for each number of ranks.
//
//   cmake -DHOLDFAST_TESTS=ON ... && forest_mending [losses [ranks...]]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "comm/algorithms/algorithms.h"
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
  std::printf(
      "{\"ranks\": %d, \"trees\": %zu, \"losses\": %d, \"plan_ms\": %.1f, \"splice_ms_p50\": %.3f, "
      "\"splice_ms_p99\": %.3f, \"mended_ms_p50\": %.3f, \"mended_ms_p99\": %.3f, "
      "\"of_a_new_plan\": %.3f, \"build_all_ms\": %.1f, \"verify_all_ms\": %.1f, "
      "\"of_the_bound\": %.3f}\n",
      ranks, forest->trees.size(), losses, plan, at(splice, 0.5), at(splice, 0.99), at(all, 0.5),
      at(all, 0.99), at(ratio, 1), build, verify, forest->bound_kbit_per_s / forest->kbit_per_s);
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
