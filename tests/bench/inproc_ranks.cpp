// A world of many ranks in one process: in-process links, all ranks in one thread, each with the
// router, the world and the group of a process of its own. It begins, sums, loses ranks at once,
// sums among those that are left, and ends in order. Prints a line of JSON. By hand, and once as a
// test that it runs.
//
//   inproc_ranks RANKS LOSSES
#include "inproc_world.h"

#include <sys/resource.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

using namespace holdfast;
using std::chrono::seconds;

constexpr int kSums = 5;
constexpr std::size_t kCount = 1024;  // elements
constexpr Duration kLimit = seconds(900);

// `wrong`: empty, or what was wrong.
void must(const std::string& wrong, const char* what) {
  if (wrong.empty()) return;
  std::fprintf(stderr, "inproc_ranks: %s: %s\n", what, wrong.c_str());
  std::_Exit(1);
}

// Names and times of the phases so far. The processor's time is what they take on an idle machine:
// there is one thread, and it does not sleep.
class Phases {
 public:
  void end(const char* name, int times = 1) {
    const double wall = seconds_of(CLOCK_MONOTONIC);
    const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    std::printf("\"%s_s\": %.4f, \"%s_cpu_s\": %.4f, ", name, (wall - wall_) / times, name,
                (cpu - cpu_) / times);
    wall_ = wall;
    cpu_ = cpu;
  }

 private:
  static double seconds_of(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  }

  double wall_ = seconds_of(CLOCK_MONOTONIC);
  double cpu_ = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
};

int threads() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int count = 0;
  while (status >> word) {
    if (word == "Threads:") status >> count;
  }
  return count;
}

}  // namespace

int main(int count, char** words) {
  const int ranks = count > 1 ? std::atoi(words[1]) : 100;
  const int losses = count > 2 ? std::atoi(words[2]) : 10;
  std::printf("{\"name\": \"inproc_ranks\", \"ranks\": %d, \"losses\": %d, ", ranks, losses);
  Phases phases;
  testing::InprocWorld world(ranks);
  phases.end("found");
  must(world.sum(kCount, kLimit), "the first sum");
  phases.end("first_sum");
  for (int i = 0; i < kSums; ++i) must(world.sum(kCount, kLimit), "a sum");
  phases.end("sum", kSums);
  // The first rank, which coordinates, is among them.
  for (int i = 0; i < losses; ++i) world.end(i * (ranks / losses));
  must(world.sum(kCount, kLimit), "the survivors' first sum");
  phases.end("loss");
  for (int i = 0; i < kSums; ++i) must(world.sum(kCount, kLimit), "a survivors' sum");
  phases.end("later_sum", kSums);
  const std::size_t links = world.most_links();
  must(world.close(kLimit) ? "" : "not all have settled", "the end");
  phases.end("close");
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf("\"peak_mb\": %ld, \"threads\": %d, \"most_links\": %zu}\n", usage.ru_maxrss / 1024,
              threads(), links);
  return 0;
}
