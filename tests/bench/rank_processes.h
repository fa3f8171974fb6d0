// What benchmarks share whose ranks are processes of their own: starting them, meeting, clocks,
// samples. A rank that finds something amiss says so and ends.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "process_worlds.h"
#include "runtime/node.h"

namespace holdfast::bench {

using WorldGroup = std::shared_ptr<comm::Communicator>;  // its owners: the node, and the rank

inline double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline void must(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "rank process: %s\n", what.c_str());
  ::_exit(1);
}

inline void must(const Status& status, const std::string& what) {
  must(status.is_ok(), what + ": " + status.message());
}

template <class T>
T must(Result<T> result, const std::string& what) {
  must(result.is_ok() ? Status::ok() : result.status(), what);
  return std::move(result).value();
}

struct Samples {
  std::vector<double> all;

  void add(double one) { all.push_back(one); }
  double median() {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }
  double least() const { return *std::min_element(all.begin(), all.end()); }
};

// A process's node, and the group of all ranks.
struct World {
  std::shared_ptr<runtime::Node> node;  // its owners: this, and what it made
  WorldGroup group;

  World(testing::FileStore& store, int rank, int size, runtime::Options options = {}) {
    options.address = "127.0.0.1";
    node = must(runtime::Node::create(options), "node");
    group = must(node->join(store, {"world", {rank}, size, {}, {}}), "join");
  }
};

// Forks `size` ranks, which call run(rank, folder of a store); whether all ended well.
template <class Run>
bool run_ranks(int size, const Run& run) {
  char folder[] = "/tmp/holdfast-bench-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return false;
  std::vector<pid_t> children;
  for (int r = 0; r < size; ++r) {
    const pid_t child = ::fork();
    if (child == 0) {
      run(r, std::string(folder));
      ::_exit(0);
    }
    children.push_back(child);
  }
  bool well = true;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    well = well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  std::filesystem::remove_all(folder);
  return well;
}

}  // namespace holdfast::bench
