// What a group costs that is made without a meeting, against one that is made by one: each rank is
// a process. Prints JSON lines, one per world size and way. By hand, and once as a test that it
// runs.
//
//   derived_groups ROUNDS [RANKS...]
#define DOCTEST_CONFIG_IMPLEMENT  // process_worlds.h is of the tests
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "rank_processes.h"

namespace {

using namespace holdfast;
using namespace holdfast::bench;
using std::chrono::seconds;
using Group = WorldGroup;

void barrier(comm::Communicator& group) {
  comm::OpRequest request;
  request.collective = comm::Collective::kBarrier;
  const auto ran = must(group.run(std::move(request)), "barrier");
  if (ran.work) must(ran.work->wait(seconds(60)), "barrier");
}

// Of this process: on a busy machine it says more than time does.
double cpu_us() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto us = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  return us(used.ru_utime) + us(used.ru_stime);
}

struct Rounds : Samples {
  double cpu_begun = cpu_us();
  double cpu_each() const { return (cpu_us() - cpu_begun) / static_cast<double>(all.size()); }
};

void report(const char* name, int ranks, Rounds& rounds) {
  std::printf(
      "{\"name\": \"%s\", \"ranks\": %d, \"rounds\": %zu, \"time_us\": %.2f, \"cpu_us\": %.2f}\n",
      name, ranks, rounds.all.size(), rounds.median(), rounds.cpu_each());
  std::fflush(stdout);
}

// One way: `make` makes a group; what is timed ends with its close().
template <class Make>
void time_way(const char* name, comm::Communicator& world, int rounds, bool with_op, Make make) {
  Rounds times;
  for (int i = 0; i < rounds; ++i) {
    if (i % 16 == 0) barrier(world);
    const double begun = now_us();
    Group group = make(i);
    if (with_op) barrier(*group);
    must(group->close(seconds(60)), "close");
    group.reset();
    times.add(now_us() - begun);
  }
  if (world.rank().value == 0) report(name, world.size(), times);
}

long resident_kib() {
  long all = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE) / 1024;
}

// What many groups take that are there at a time, and what an op of the world costs beside them.
template <class Derive>
void weigh(comm::Communicator& world, int many, bool with_op, Derive derive) {
  const long before = resident_kib();
  std::vector<Group> groups;
  for (int i = 0; i < many; ++i) {
    groups.push_back(derive(i));
    if (with_op) barrier(*groups.back());
  }
  const long taken = resident_kib() - before;
  Rounds barriers;
  for (int i = 0; i < 500; ++i) {
    const double begun = now_us();
    barrier(world);
    barriers.add(now_us() - begun);
  }
  for (const Group& group : groups) must(group->close(seconds(60)), "close");
  groups.clear();
  // Long enough for all to be let go.
  for (int i = 0; i < 4000; ++i) barrier(world);
  if (world.rank().value != 0) return;
  std::printf(
      "{\"name\": \"many_groups\", \"ranks\": %d, \"groups\": %d, \"with_op\": %s, "
      "\"kib_each\": %.2f, \"kib_left\": %ld, \"barrier_us\": %.2f}\n",
      world.size(), many, with_op ? "true" : "false", static_cast<double>(taken) / many,
      resident_kib() - before, barriers.median());
  std::fflush(stdout);
}

void run_rank(int rank, int size, int rounds, const std::string& folder) {
  testing::FileStore store(folder);
  const World made(store, rank, size);
  const Group world = made.group;
  std::vector<Rank> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back({r});
  const auto derive = [&](int) { return must(made.node->derive(world, {ranks}), "derive"); };
  for (int i = 0; i < 100; ++i) barrier(*world);
  Rounds barriers;
  for (int i = 0; i < rounds; ++i) {
    const double begun = now_us();
    barrier(*world);
    barriers.add(now_us() - begun);
  }
  if (rank == 0) report("barrier", size, barriers);
  time_way("derive_close", *world, rounds, false, derive);
  time_way("derive_barrier_close", *world, rounds, true, derive);
  weigh(*world, std::min(5 * rounds, 10'000), false, derive);
  weigh(*world, rounds, true, derive);
  const auto meet = [&](int i) {
    runtime::JoinRequest request{"met" + std::to_string(i), {rank}, size, {}, {}, ranks, world};
    return must(made.node->join(store, request), "join");
  };
  time_way("meet_barrier_close", *world, std::min(rounds, 50), true, meet);
  must(world->close(seconds(60)), "close world");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 2000;
  std::vector<int> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {2, 4};
  bool well = rounds > 0;
  for (const int size : sizes) {
    well = well && run_ranks(size, [&](int rank, const std::string& folder) {
             run_rank(rank, size, rounds, folder);
           });
  }
  return well ? 0 : 1;
}
