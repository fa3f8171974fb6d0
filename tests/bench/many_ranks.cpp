// What a job of many ranks costs on one host, each a process: how long it takes to begin, memory,
// descriptors and connections of a process, an all_reduce, losses by kill -9 and the end. Prints a
// line of JSON. By hand, and once as a test that it runs.
//
//   many_ranks MESH RANKS KILLS
#define DOCTEST_CONFIG_IMPLEMENT  // process_worlds.h is of the tests
#include <dirent.h>
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
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

constexpr int kSums = 9;
constexpr std::size_t kSmall = 1024;       // elements
constexpr std::size_t kLarge = 64 * 1024;  // elements
// Ranks are started so long one after the other: together they would all read the same pages.
constexpr int kStagger_us = 5'000;

struct Held {
  int descriptors = 0;
  int connections = 0;
};

Held held() {
  Held held;
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder)) {
    sockaddr_storage other{};
    socklen_t length = sizeof other;
    auto* address = reinterpret_cast<sockaddr*>(&other);
    const int fd = std::atoi(entry->d_name);
    ++held.descriptors;
    const bool is_connected = ::getpeername(fd, address, &length) == 0;
    held.connections += is_connected && other.ss_family == AF_INET ? 1 : 0;
  }
  ::closedir(folder);
  return held;
}

// Memory of this process in KiB, shared pages by their share.
long memory_kb() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string word;
  while (rollup >> word) {
    long kb = 0;
    if (word == "Pss:" && rollup >> kb) return kb;
  }
  return 0;
}

double sum(comm::Communicator& group, std::size_t count, double expected) {
  std::vector<float> v(count, 1.F);
  comm::OpRequest request;
  request.collective = comm::Collective::kAllReduce;
  request.input = request.output = {{reinterpret_cast<std::byte*>(v.data()), count}};
  const double before = now_us();
  const auto work = must(group.start(std::move(request)), "all_reduce");
  must(work->wait(seconds(300)), "all_reduce");
  must(v.front() == expected && v.back() == expected, "another sum");
  return now_us() - before;
}

struct Job {
  std::string mesh;
  int ranks = 0;
  int kills = 0;

  // The kill in which a rank ends; -1: none. The first of all is among them.
  int end_of(int rank) const {
    for (int kill = 0; kill < kills; ++kill) {
      if (rank == kill * (ranks - 1) / std::max(kills, 1)) return kill;
    }
    return -1;
  }
};

void run_rank(const Job& job, int rank, const std::string& folder, double started) {
  ::alarm(300);  // nobody waits for it
  testing::FileStore store(folder);
  runtime::Options options;
  options.mesh = job.mesh;
  options.timeout = seconds(300);
  ::usleep(static_cast<useconds_t>(rank * kStagger_us));
  World world(store, rank, job.ranks, options);
  double living = job.ranks;
  sum(*world.group, kSmall, living);
  const double begun = now_us() - started;
  Samples small;
  Samples large;
  for (int i = 0; i < kSums; ++i) {
    small.add(sum(*world.group, kSmall, living));
    large.add(sum(*world.group, kLarge, living));
  }
  const Held now = held();
  const long memory = memory_kb();
  Samples losses;
  for (int kill = 0; kill < job.kills; ++kill) {
    if (job.end_of(rank) == kill) ::raise(SIGKILL);
    living -= 1;
    losses.add(sum(*world.group, kSmall, living));
  }
  const double before = now_us();
  must(world.group->close(seconds(120)), "close");
  const double closed = now_us() - before;
  std::ofstream(folder + "/said." + std::to_string(rank))
      << begun << " " << small.median() << " " << large.median() << " "
      << (losses.all.empty() ? 0 : losses.median()) << " " << closed << " " << memory << " "
      << now.descriptors << " " << now.connections << "\n";
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int count, char** words) {
  Job job{count > 1 ? words[1] : "sparse", count > 2 ? std::atoi(words[2]) : 40,
          count > 3 ? std::atoi(words[3]) : 4};
  constexpr const char* kNames[] = {"begin_us", "small_us",  "large_us",    "loss_us",
                                    "close_us", "memory_kb", "descriptors", "connections"};
  constexpr std::size_t kCount = std::size(kNames);
  char folder[] = "/tmp/holdfast-bench-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  const double started = now_us();
  std::vector<pid_t> children;
  for (int r = 0; r < job.ranks; ++r) {
    const pid_t child = ::fork();
    if (child == 0) {
      run_rank(job, r, folder, started);
      ::_exit(0);
    }
    children.push_back(child);
  }
  int amiss = 0;
  for (int r = 0; r < job.ranks; ++r) {
    int status = 0;
    ::waitpid(children[static_cast<std::size_t>(r)], &status, 0);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    amiss += job.end_of(r) >= 0 ? !killed : !well;
  }
  std::vector<std::vector<double>> said(kCount);
  for (int r = 0; r < job.ranks; ++r) {
    std::ifstream file(std::string(folder) + "/said." + std::to_string(r));
    std::vector<double> values(kCount);
    for (double& value : values) file >> value;
    for (std::size_t i = 0; i < kCount && file; ++i) said[i].push_back(values[i]);
  }
  std::filesystem::remove_all(folder);
  std::printf("{\"name\": \"many_ranks\", \"mesh\": \"%s\", \"ranks\": %d, \"kills\": %d, ",
              job.mesh.c_str(), job.ranks, job.kills);
  for (std::size_t i = 0; i < kCount; ++i) {
    const double most = said[i].empty() ? 0 : *std::max_element(said[i].begin(), said[i].end());
    std::printf("\"%s\": %.0f, \"most_%s\": %.0f, ", kNames[i], median(said[i]), kNames[i], most);
  }
  std::printf("\"amiss\": %d, \"took_s\": %.1f}\n", amiss, (now_us() - started) / 1e6);
  return amiss == 0 ? 0 : 1;
}
