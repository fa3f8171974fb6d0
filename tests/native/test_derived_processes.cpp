// Groups that are made without a meeting, in worlds of processes: what they leave behind, and what
// a rank that is killed does to them.
#include <dirent.h>
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "process_worlds.h"
#include "runtime/node.h"
#include "sanitized.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Ending;
using testing::run_processes;
using Group = std::shared_ptr<comm::Communicator>;

struct Joined {
  std::shared_ptr<Node> node;
  Group world;
};

std::string join(Joined& joined, Store& store, int rank, int size,
                 comm::PeerLoss on_loss = comm::PeerLoss::kContinue) {
  Options options;
  options.address = "127.0.0.1";
  options.timeout = seconds(60);
  options.on_peer_loss = on_loss;
  auto node = Node::create(options);
  if (!node.is_ok()) return node.status().message();
  joined.node = node.value();
  auto world = joined.node->join(store, {"world", {rank}, size, {}, {}});
  if (!world.is_ok()) return world.status().message();
  joined.world = world.value();
  return "";
}

std::vector<Rank> ranks_from(int first, int end) {
  std::vector<Rank> ranks;
  for (int r = first; r < end; ++r) ranks.push_back({r});
  return ranks;
}

comm::OpRequest sum_of(std::vector<float>& v) {
  comm::OpRequest request;
  request.collective = comm::Collective::kAllReduce;
  request.input = request.output = {{reinterpret_cast<std::byte*>(v.data()), v.size()}};
  return request;
}

Status run_to_end(comm::Communicator& group, comm::OpRequest request) {
  auto ran = group.run(std::move(request));
  if (!ran.is_ok()) return ran.status();
  return ran.value().work ? ran.value().work->wait(seconds(60)) : Status::ok();
}

std::string sum_in(comm::Communicator& group, std::size_t count = 4) {
  std::vector<float> v(count, static_cast<float>(group.rank().value + 1));
  const Status status = run_to_end(group, sum_of(v));
  if (!status.is_ok()) return status.message();
  const int n = group.size();
  const bool right = std::all_of(v.begin(), v.end(),
                                 [&](float x) { return x == static_cast<float>(n * (n + 1) / 2); });
  return right ? "" : "wrong sum in " + group.name();
}

// Files of the folder whose names have `part` in them.
std::size_t entries(const char* folder, const std::string& part = "") {
  std::size_t count = 0;
  DIR* directory = ::opendir(folder);
  while (const dirent* entry = ::readdir(directory)) {
    if (std::strstr(entry->d_name, part.c_str()) != nullptr) ++count;
  }
  ::closedir(directory);
  return count;
}

// What a process has: descriptors, threads, mapped regions, and memory in pages.
struct Holdings {
  std::size_t descriptors = entries("/proc/self/fd");
  std::size_t threads = entries("/proc/self/task");
  // A segment's name has the number of the process that made it.
  std::size_t segments = entries("/dev/shm", "." + std::to_string(::getpid()) + ".");
  long resident = resident_pages();

  static long resident_pages() {
    long all = 0;
    long resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident;
  }
  std::string differs_from(const Holdings& before, long more_pages) const {
    std::ostringstream text;
    if (descriptors != before.descriptors) {
      text << "descriptors: " << before.descriptors << " then " << descriptors << "; ";
    }
    if (threads != before.threads) text << "threads; ";
    if (segments != before.segments) {
      text << "segments: " << before.segments << " then " << segments << "; ";
    }
    if (resident > before.resident + more_pages) {
      text << "pages: " << before.resident << " then " << resident << "; ";
    }
    return text.str();
  }
};

void expect_well(const std::vector<Ending>& endings) {
  for (const Ending& ending : endings) {
    CHECK(ending.words == "");
    CHECK(ending.code == 0);
  }
}

constexpr int kMany = testing::kSanitized ? 500 : 10'000;
// What allocators keep for the next groups: 10,000 that leave something behind take more. A
// sanitizer holds 256 MiB back of what is freed, and finds itself what is not.
constexpr long kKeptPages = testing::kSanitized ? 128 * 1024 : 2 * 1024;

std::string one_after_the_other(Joined& joined, int size) {
  for (int i = 0; i < kMany; ++i) {
    auto made = joined.node->derive(joined.world, {ranks_from(0, size)});
    if (!made.is_ok()) return made.status().message();
    if (i % 3 == 0) {
      if (const std::string wrong = sum_in(*made.value(), i % 9 == 0 ? 20'000 : 4); !wrong.empty())
        return wrong;
    }
    if (Status s = made.value()->close(seconds(60)); !s.is_ok()) return s.message();
  }
  return "";
}

TEST_CASE("groups made and freed one after the other leave nothing behind") {
  for (const int size : {2, 3}) {
    expect_well(run_processes(size, [size](int rank, Store& store) -> std::string {
      Joined joined;
      std::string wrong = join(joined, store, rank, size);
      wrong += sum_in(*joined.world, 20'000);
      if (wrong.empty()) wrong = one_after_the_other(joined, size);
      wrong += sum_in(*joined.world);
      const Holdings before;
      if (wrong.empty()) wrong = one_after_the_other(joined, size);
      wrong += sum_in(*joined.world);
      wrong += Holdings().differs_from(before, kKeptPages);
      wrong += joined.world->close(seconds(60)).message();
      return wrong;
    }));
  }
}

// All at a time; every tenth runs ops, some of them with areas and most without, in another order
// than they were made in, and they are closed in an order of each rank's own.
std::string all_at_a_time(Joined& joined, int rank, int size) {
  std::vector<Group> groups;
  for (int i = 0; i < kMany; ++i) {
    auto made = joined.node->derive(joined.world, {ranks_from(i % 2, size)});
    if (!made.is_ok()) return made.status().message();
    groups.push_back(made.value());
  }
  for (std::size_t i = groups.size(); i-- > 0;) {
    if (i % 10 != 0 && i % 10 != 3) continue;
    if (groups[i] == nullptr) continue;
    if (const std::string wrong = sum_in(*groups[i]); !wrong.empty()) return wrong;
  }
  for (int i = 0; i < kMany; ++i) {
    // 7919 is a prime.
    const auto at = static_cast<std::size_t>((i * 7919 + rank * 31) % kMany);
    if (groups[at] == nullptr) continue;
    if (Status s = groups[at]->close(seconds(60)); !s.is_ok()) return s.message();
    groups[at] = nullptr;
  }
  return sum_in(*joined.world);
}

TEST_CASE("as many groups as a world ever needs are there at a time") {
  expect_well(run_processes(3, [](int rank, Store& store) -> std::string {
    Joined joined;
    std::string wrong = join(joined, store, rank, 3);
    if (wrong.empty()) wrong = all_at_a_time(joined, rank, 3);
    const Holdings before;
    for (int again = 0; again < 2 && wrong.empty(); ++again) {
      wrong = all_at_a_time(joined, rank, 3);
    }
    wrong += sum_in(*joined.world);
    wrong += Holdings().differs_from(before, 4 * kKeptPages);
    wrong += joined.world->close(seconds(60)).message();
    return wrong;
  }));
}

// Ops of several derived groups are under way when the last rank is killed: all end, and alike.
std::string ops_through_a_loss(Joined& joined, int rank, int size, comm::PeerLoss on_loss) {
  std::vector<Group> groups;
  std::vector<int> numbers;
  for (int i = 0; i < 40; ++i) {
    // The first rank is in one of three, and the rank that dies in all.
    auto made = joined.node->derive(joined.world, {ranks_from(i % 3 == 0 ? 0 : 1, size)});
    if (!made.is_ok()) return made.status().message();
    if (made.value() == nullptr) continue;
    groups.push_back(made.value());
    numbers.push_back(i);
  }
  for (std::size_t i = 0; i < groups.size() && numbers[i] < 20; ++i) {
    if (const std::string wrong = sum_in(*groups[i]); !wrong.empty()) return wrong;
  }
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    values.emplace_back(numbers[i] % 4 == 1 ? 100'000 : 8,
                        static_cast<float>(groups[i]->rank().value + 1));
  }
  std::vector<std::shared_ptr<comm::Work>> works;
  const bool dies = rank == size - 1;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    // The one that dies has called some of them, and the first op of some groups.
    if (dies && numbers[i] >= 25) ::kill(::getpid(), SIGKILL);
    auto work = groups[i]->start(sum_of(values[i]));
    if (!work.is_ok()) return work.status().message();
    works.push_back(work.value());
  }
  for (std::size_t i = 0; i < works.size(); ++i) {
    const Status status = works[i]->wait(seconds(60));
    const bool raised = on_loss == comm::PeerLoss::kRaise && status.code() == Code::kPeerLost;
    if (!status.is_ok() && !raised) return status.message();
    if (raised) continue;
    const int n = groups[i]->size();
    const auto all = static_cast<float>(n * (n + 1) / 2);
    const auto left = static_cast<float>((n - 1) * n / 2);
    for (const float x : values[i]) {
      if (x != all && x != left) return "a sum of neither those there nor all";
    }
  }
  return "";
}

TEST_CASE("a rank that is killed while derived groups have ops under way") {
  for (const comm::PeerLoss on_loss : {comm::PeerLoss::kContinue, comm::PeerLoss::kRaise}) {
    constexpr int kSize = 4;
    const auto endings = run_processes(kSize, [&](int rank, Store& store) -> std::string {
      Joined joined;
      std::string wrong = join(joined, store, rank, kSize, on_loss);
      if (wrong.empty()) wrong = ops_through_a_loss(joined, rank, kSize, on_loss);
      if (!wrong.empty()) return wrong;
      // Groups of the survivors go on being made, by all of them and by some.
      for (int i = 0; i < 30; ++i) {
        auto made = joined.node->derive(joined.world, {ranks_from(0, kSize - 1)});
        if (!made.is_ok()) return made.status().message();
        wrong = sum_in(*made.value(), i % 3 == 0 ? 50'000 : 4);
        if (wrong.empty()) wrong = made.value()->close(seconds(60)).message();
        if (!wrong.empty()) return "after the loss: " + wrong;
      }
      return joined.world->close(seconds(60)).message();
    });
    for (int r = 0; r < kSize - 1; ++r) {
      const Ending& ending = endings[static_cast<std::size_t>(r)];
      CHECK(ending.words.find("wrong") == std::string::npos);
      CHECK(ending.code == 0);
      if (ending.code != 0) MESSAGE(ending.words);
    }
    CHECK(endings.back().signal == SIGKILL);
  }
}

}  // namespace
}  // namespace holdfast::runtime
