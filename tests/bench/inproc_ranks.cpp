// A world of many ranks in one process: in-process links, all ranks in one thread, each with the
// router, the world and the group of a process of its own. It begins, sums, loses ranks at once,
// sums among those that are left, and ends in order. Prints a line of JSON. By hand, and once as a
// test that it runs.
//
//   inproc_ranks RANKS LOSSES
#include "inproc_world.h"

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace {

using namespace holdfast;
using std::chrono::seconds;

constexpr int kSums = 5;
constexpr std::size_t kCount = 1024;  // elements
constexpr Duration kLimit = seconds(900);

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "inproc_ranks: %s\n", what);
  std::_Exit(1);
}

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(since_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
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
  Stopwatch watch;
  testing::InprocWorld world(ranks);
  const double found = watch.lap();
  must(world.sum(kCount, kLimit) == "", "the first sum");
  const double first = watch.lap();
  for (int i = 0; i < kSums; ++i) must(world.sum(kCount, kLimit) == "", "a sum");
  const double sums = watch.lap();
  // The first rank, which coordinates, is among them.
  for (int i = 0; i < losses; ++i) world.end(i * (ranks / losses));
  must(world.sum(kCount, kLimit) == "", "the survivors' first sum");
  const double loss = watch.lap();
  for (int i = 0; i < kSums; ++i) must(world.sum(kCount, kLimit) == "", "a survivors' sum");
  const double later = watch.lap();
  const std::size_t links = world.most_links();
  must(world.close(kLimit), "the end");
  const double close = watch.lap();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"name\": \"inproc_ranks\", \"ranks\": %d, \"losses\": %d, \"found_s\": %.3f, "
      "\"first_sum_s\": %.3f, \"sum_s\": %.4f, \"loss_s\": %.3f, \"later_sum_s\": %.4f, "
      "\"close_s\": %.3f, \"peak_mb\": %ld, \"threads\": %d, \"most_links\": %zu}\n",
      ranks, losses, found, first, sums / kSums, loss, later / kSums, close, usage.ru_maxrss / 1024,
      threads(), links);
  return 0;
}
