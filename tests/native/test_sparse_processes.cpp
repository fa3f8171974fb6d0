// Sparse worlds of processes, of which some are killed: the others find each other, and their sums
// are theirs.
#include <dirent.h>
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <csignal>
#include <set>

#include "process_worlds.h"
#include "runtime/node.h"
#include "sanitized.h"

namespace holdfast::runtime {
namespace {

using std::chrono::seconds;
using testing::Ending;
using testing::run_processes;
using Group = std::shared_ptr<comm::Communicator>;

struct Plan {
  std::string transport;
  int size = 0;
  std::vector<int> victims;  // each is killed before another sum
  bool all_pairs = false;    // at last, all ranks send to all
};

// Connections of this process.
int connections() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder)) {
    sockaddr_storage other{};
    socklen_t length = sizeof other;
    const int fd = std::atoi(entry->d_name);
    auto* address = reinterpret_cast<sockaddr*>(&other);
    const bool is_connected = fd > 2 && ::getpeername(fd, address, &length) == 0;
    count += is_connected && other.ss_family == AF_INET ? 1 : 0;
  }
  ::closedir(folder);
  return count;
}

std::string run(comm::Communicator& group, comm::OpRequest request) {
  auto work = group.start(std::move(request));
  return work.is_ok() ? work.value()->wait(seconds(60)).message() : work.status().message();
}

// The sum of the ranks that live, of a small and of a large tensor.
std::string sum(comm::Communicator& group, int rank, const std::set<int>& living) {
  float expected = 0;
  for (const int r : living) expected += static_cast<float>(r + 1);
  for (const std::size_t count : {3UL, 50'000UL}) {
    std::vector<float> v(count, static_cast<float>(rank + 1));
    comm::OpRequest request;
    request.collective = comm::Collective::kAllReduce;
    request.input = request.output = {{reinterpret_cast<std::byte*>(v.data()), count}};
    if (auto error = run(group, request); !error.empty()) return error;
    if (v.front() != expected || v.back() != expected) {
      return "sum " + std::to_string(v.front()) + " of " + std::to_string(living.size()) +
             " ranks, not " + std::to_string(expected);
    }
  }
  return "";
}

std::string send_to_all(comm::Communicator& group, int rank, const std::set<int>& living) {
  std::vector<std::vector<float>> values;
  std::vector<std::shared_ptr<comm::Work>> works;
  values.reserve(2 * living.size());
  for (const int other : living) {
    if (other == rank) continue;
    for (const auto what : {comm::Collective::kSend, comm::Collective::kRecv}) {
      values.push_back({static_cast<float>(rank)});
      comm::OpRequest request;
      request.collective = what;
      request.peer = {other};
      comm::Block block{reinterpret_cast<std::byte*>(values.back().data()), 1};
      (what == comm::Collective::kSend ? request.input : request.output) = {block};
      auto work = group.start(request);
      if (!work.is_ok()) return work.status().message();
      works.push_back(work.value());
    }
  }
  for (const auto& work : works) {
    if (Status s = work->wait(seconds(60)); !s.is_ok()) return s.message();
  }
  std::size_t at = 1;
  for (const int other : living) {
    if (other == rank) continue;
    if (values[at][0] != static_cast<float>(other)) return "another rank's message";
    at += 2;
  }
  return "";
}

Options options_of(const Plan& plan) {
  Options options;
  options.address = "127.0.0.1";
  options.timeout = seconds(60);
  options.transports = {plan.transport};
  if (plan.transport == "shm") options.transports.emplace_back("tcp");
  options.mesh = "sparse";
  return options;
}

std::string member(const Plan& plan, int rank, Store& store) {
  auto node = Node::create(options_of(plan));
  if (!node.is_ok()) return node.status().message();
  auto group = node.value()->join(store, {"world", {rank}, plan.size, {}, {}});
  if (!group.is_ok()) return group.status().message();
  std::set<int> living;
  for (int r = 0; r < plan.size; ++r) living.insert(r);
  std::string error = sum(*group.value(), rank, living);
  for (const int victim : plan.victims) {
    if (!error.empty()) return error;
    if (rank == victim) ::raise(SIGKILL);
    living.erase(victim);
    error = sum(*group.value(), rank, living);
  }
  if (!error.empty()) return error;
  const int count = connections();
  // Who coordinates has one to each.
  if (rank != *living.begin() && 4 * count > 3 * plan.size && plan.size > 16) {
    return std::to_string(count) + " connections of " + std::to_string(plan.size) + " ranks";
  }
  if (plan.all_pairs) error = send_to_all(*group.value(), rank, living);
  const Status closed = group.value()->close(seconds(30));
  return error.empty() && closed.code() != Code::kUnconfirmed ? closed.message() : error;
}

void expect_survival(const Plan& plan) {
  const auto endings =
      run_processes(plan.size, [&](int rank, Store& store) { return member(plan, rank, store); });
  for (int r = 0; r < plan.size; ++r) {
    const Ending& ending = endings[static_cast<std::size_t>(r)];
    const bool dies = std::find(plan.victims.begin(), plan.victims.end(), r) != plan.victims.end();
    INFO("rank " << r << ": " << ending.words);
    CHECK(ending.signal == (dies ? SIGKILL : 0));
    if (!dies) CHECK(ending.code == 0);
  }
}

TEST_CASE("the first rank is killed, then a neighbour of the next, then a far one") {
  for (const std::string transport : {"tcp", "shm"}) {
    CAPTURE(transport);
    expect_survival({transport, 9, {0, 2, 6}, true});
  }
}

TEST_CASE("most ranks of a large world never meet") {
  if (testing::kSanitized) return;
  expect_survival({"tcp", 28, {0, 13}});
}

// Others wait at step boundaries until the rank is there again.
std::string rejoined(const Plan& plan, int rank, Store& store) {
  const int victim = plan.victims.front();
  if (rank == victim) {
    const pid_t first = ::fork();
    if (first == 0) ::_exit(member(plan, rank, store).empty() ? 0 : 1);
    int status = 0;
    ::waitpid(first, &status, 0);
    if (!WIFSIGNALED(status)) return "the first life was not killed";
  }
  auto node = Node::create(options_of(plan));
  if (!node.is_ok()) return node.status().message();
  auto joined = node.value()->join(store, {"world", {rank}, plan.size, {}, {}});
  if (!joined.is_ok()) return joined.status().message();
  comm::Communicator& group = *joined.value();
  std::set<int> living;
  for (int r = 0; r < plan.size; ++r) living.insert(r);
  if (rank != victim) {
    if (auto error = sum(group, rank, living); !error.empty()) return error;
    living.erase(victim);
    if (auto error = sum(group, rank, living); !error.empty()) return error;
    while (group.live_ranks().size() < static_cast<std::size_t>(plan.size)) {
      if (Status s = group.advance(seconds(60))->wait(seconds(60)); !s.is_ok()) return s.message();
    }
    living.insert(victim);
  }
  std::string error = sum(group, rank, living);
  if (error.empty()) error = send_to_all(group, rank, living);
  const Status closed = group.close(seconds(30));
  return error.empty() && closed.code() != Code::kUnconfirmed ? closed.message() : error;
}

TEST_CASE("a rank that was killed comes back, and all meet it") {
  const Plan plan{"tcp", 9, {4}};
  const auto endings =
      run_processes(plan.size, [&](int rank, Store& store) { return rejoined(plan, rank, store); });
  for (std::size_t r = 0; r < endings.size(); ++r) {
    INFO("rank " << r << ": " << endings[r].words);
    CHECK(endings[r].code == 0);
  }
}

}  // namespace
}  // namespace holdfast::runtime
