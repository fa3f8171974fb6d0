// Groups that are made without a meeting: whole nodes, each on a thread of its own.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <sstream>
#include <thread>

#include "comm/engine/area_room.h"
#include "worlds.h"

namespace holdfast::runtime {
namespace {

using std::chrono::seconds;
using testing::all_reduce;
using testing::expect_no_errors;
using testing::Member;
using testing::run_world;
using Group = std::shared_ptr<comm::Communicator>;

std::vector<Rank> all_ranks(int size) {
  std::vector<Rank> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back({r});
  return ranks;
}

// What went wrong with a sum of rank + `with` over the group's ranks, if anything did.
std::string sum_in(comm::Communicator& group, std::size_t count = 10, int with = 1) {
  std::vector<float> v(count, static_cast<float>(group.rank().value + with));
  auto ran = group.run(all_reduce(v));
  if (!ran.is_ok()) return ran.status().message();
  if (ran.value().work) {
    if (Status s = ran.value().work->wait(seconds(60)); !s.is_ok()) return s.message();
  }
  const int n = group.size();
  const auto expected = static_cast<float>(n * (n - 1) / 2 + n * with);
  const bool right = std::all_of(v.begin(), v.end(), [&](float x) { return x == expected; });
  return right ? "" : "wrong sum in " + group.name();
}

Result<Group> duplicate(Member& member, const Group& parent) {
  return member.node->derive(parent, {all_ranks(parent->size())});
}

std::string duplicates(int, Member& member) {
  auto copy = duplicate(member, member.group);
  if (!copy.is_ok()) return copy.status().message();
  auto copy_of_copy = duplicate(member, copy.value());
  if (!copy_of_copy.is_ok()) return copy_of_copy.status().message();
  for (const std::size_t count : {0UL, 3UL, 5000UL, 300'000UL}) {
    for (const Group& group : {copy.value(), member.group, copy_of_copy.value()}) {
      if (const std::string wrong = sum_in(*group, count); !wrong.empty()) return wrong;
    }
  }
  if (copy.value()->id() == member.group->id()) return "the copy has its parent's name";
  if (copy.value()->id() == copy_of_copy.value()->id()) return "two copies have one name";
  if (copy.value()->hosts() != member.group->hosts()) return "hosts";
  if (Status s = copy.value()->close(seconds(10)); !s.is_ok()) return s.message();
  return sum_in(*copy_of_copy.value()) + sum_in(*member.group);
}

TEST_CASE("a duplicate runs what its parent runs") {
  for (const std::string transport : {"shm", "tcp"}) {
    for (int n = 1; n <= 4; ++n) expect_no_errors(run_world(n, transport, duplicates));
  }
}

// By colour, in falling order of ranks; rank 0 is in none.
std::string splits(int rank, Member& member) {
  const int size = member.group->size();
  const auto of_colour = [&](int colour) {
    std::vector<Rank> ranks;
    for (int r = size - 1; r > 0; --r) {
      if (r % 2 == colour) ranks.push_back({r});
    }
    return ranks;
  };
  auto part =
      member.node->derive(member.group, {rank == 0 ? std::vector<Rank>{} : of_colour(rank % 2)});
  if (!part.is_ok()) return part.status().message();
  auto copy = duplicate(member, member.group);
  if (!copy.is_ok()) return copy.status().message();
  if (rank == 0) return part.value() == nullptr ? sum_in(*copy.value()) : "rank 0 has a part";
  const std::vector<Rank> ranks = of_colour(rank % 2);
  const auto at = std::find(ranks.begin(), ranks.end(), Rank{rank});
  if (part.value()->rank().value != at - ranks.begin()) return "rank";
  if (part.value()->size() != static_cast<int>(ranks.size())) return "size";
  const std::string wrong = sum_in(*part.value()) + sum_in(*copy.value());
  return wrong + sum_in(*part.value(), 100'000);
}

TEST_CASE("a split makes groups that differ, and the call counts where there is none") {
  for (const std::string transport : {"shm", "tcp"}) {
    for (const int n : {2, 3, 5}) expect_no_errors(run_world(n, transport, splits));
  }
}

// Members of overlapping groups, in orders of their own.
std::string by_members(int rank, Member& member) {
  if (rank == 3) return "";
  std::vector<Group> groups;
  for (const std::uint64_t tag : {7UL, 7UL, 8UL}) {
    auto made = member.node->derive(member.group, {{{2}, {0}, {1}}, tag});
    if (!made.is_ok()) return made.status().message();
    groups.push_back(made.value());
    if (rank == 1) continue;
    auto pair = member.node->derive(member.group, {{{0}, {2}}, tag});
    if (!pair.is_ok()) return pair.status().message();
    if (const std::string wrong = sum_in(*pair.value()); !wrong.empty()) return wrong;
    groups.push_back(pair.value());
  }
  for (std::size_t a = 0; a < groups.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (groups[a]->id() == groups[b]->id()) return "two groups have one name";
    }
  }
  std::string wrong;
  for (const Group& group : groups) wrong += sum_in(*group);
  return wrong;
}

TEST_CASE("members make a group alone, again and again, with tags") {
  expect_no_errors(run_world(4, "shm", by_members));
}

std::string refusals(int, Member& member) {
  const auto code = [&](const DeriveRequest& request) {
    return member.node->derive(member.group, request).status().code();
  };
  if (code({{{0}, {2}}}) != Code::kConfigError) return "rank 2 of 2";
  if (code({{{0}, {-1}}}) != Code::kConfigError) return "rank -1";
  if (code({{{0}, {0}}}) != Code::kConfigError) return "rank 0 twice";
  if (code({{}, 1}) != Code::kConfigError) return "no members";
  if (member.node->derive(nullptr, {}).status().code() != Code::kConfigError) return "no parent";
  auto copy = duplicate(member, member.group);
  if (!copy.is_ok()) return copy.status().message();
  const std::string wrong = sum_in(*copy.value());
  if (Status s = copy.value()->close(seconds(10)); !s.is_ok()) return s.message();
  if (duplicate(member, copy.value()).status().code() != Code::kNotMember) return "closed parent";
  return wrong;
}

TEST_CASE("what cannot be made is refused, and costs no agreement") {
  expect_no_errors(run_world(2, "shm", refusals));
}

// How many all-reduces of this process have gone that way.
long ops_by(const Member& member, const std::string& path) {
  std::istringstream text(member.node->metrics_text(false));
  long count = 0;
  for (std::string line; std::getline(text, line);) {
    const bool is_it = line.starts_with("holdfast_ops_total{") &&
                       line.find("collective=\"all_reduce\"") != std::string::npos &&
                       line.find("path=\"" + path + "\"") != std::string::npos;
    if (is_it) count += std::stol(line.substr(line.rfind(' ') + 1));
  }
  return count;
}

std::string by_shared_memory(int, Member& member) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < comm::kRoomAreas + 4; ++i) {
    auto made = duplicate(member, i % 2 == 0 ? member.group : groups[i / 2]);
    if (!made.is_ok()) return made.status().message();
    groups.push_back(made.value());
  }
  // As many as there are areas; the others go by messages, and are as right.
  for (const Group& group : groups) {
    if (const std::string wrong = sum_in(*group); !wrong.empty()) return wrong;
  }
  const long flat = ops_by(member, "flat");
  if (flat != static_cast<long>(comm::kRoomAreas)) return std::to_string(flat) + " flat ops";
  for (const Group& group : groups) {
    if (const std::string wrong = sum_in(*group, 300'000); !wrong.empty()) return wrong;
  }
  const long sliced = ops_by(member, "slices");
  if (sliced != static_cast<long>(comm::kRoomAreas)) return std::to_string(sliced) + " in slices";
  for (const Group& group : groups) {
    if (Status s = group->close(seconds(10)); !s.is_ok()) return s.message();
  }
  if (const std::string wrong = sum_in(*member.group); !wrong.empty()) return wrong;
  // The areas are there again once the others have closed these groups, too.
  auto again = duplicate(member, member.group);
  if (!again.is_ok()) return again.status().message();
  const long before = ops_by(member, "flat");
  if (const std::string wrong = sum_in(*again.value()); !wrong.empty()) return wrong;
  return ops_by(member, "flat") == before + 1 ? "" : "no area for a new group";
}

TEST_CASE("groups have areas of the segments that their members have mapped") {
  for (const int n : {2, 3}) expect_no_errors(run_world(n, "shm", by_shared_memory));
}

// Each thread has a group of its own, and one thread's group overlaps with another's.
std::string many_threads(int rank, Member& member) {
  constexpr int kThreads = 4;
  std::vector<std::vector<Rank>> lists{{{0}, {1}, {2}}, {{2}, {0}}, {{1}, {2}}, {{1}, {0}}};
  std::vector<std::string> errors(kThreads);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::string& error = errors[t];
      const std::vector<Rank>& list = lists[t];
      if (std::find(list.begin(), list.end(), Rank{rank}) == list.end()) return;
      for (int i = 0; i < 60 && error.empty(); ++i) {
        auto made = member.node->derive(member.group, {list, t});
        if (!made.is_ok()) {
          error = made.status().message();
          return;
        }
        for (int op = 0; op < 5 && error.empty(); ++op) {
          error = sum_in(*made.value(), op == 3 ? 20'000 : 4, op);
        }
        if (error.empty()) error = made.value()->close(seconds(60)).message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& error : errors) all += error;
  return all + sum_in(*member.group);
}

TEST_CASE("threads make and use groups that overlap") {
  for (const std::string transport : {"shm", "tcp"}) {
    expect_no_errors(run_world(3, transport, many_threads));
  }
}

// As MPI_Comm_split_type does it.
std::string by_host(int rank, Member& member) {
  const std::vector<int> hosts = member.group->hosts();
  std::vector<Rank> ranks;
  for (int r = 0; r < member.group->size(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (hosts[at] == hosts[static_cast<std::size_t>(rank)]) ranks.push_back({r});
  }
  if (ranks.size() != 2) return "ranks of this host";
  auto part = member.node->derive(member.group, {ranks});
  if (!part.is_ok()) return part.status().message();
  auto copy = duplicate(member, member.group);
  if (!copy.is_ok()) return copy.status().message();
  for (const std::size_t count : {4UL, 50'000UL}) {
    const std::string wrong = sum_in(*part.value(), count) + sum_in(*copy.value(), count);
    if (!wrong.empty()) return wrong;
  }
  if (part.value()->hosts() != std::vector<int>{0, 0}) return "hosts of the part";
  for (const Group& group : {part.value(), copy.value()}) {
    if (Status s = group->close(seconds(60)); !s.is_ok()) return s.message();
  }
  return sum_in(*member.group);
}

TEST_CASE("a group of two hosts is split by host") {
  std::atomic<int> made{0};
  expect_no_errors(run_world(4, "shm", by_host, [&](Options& options) {
    options.transports = {"shm", "tcp"};
    options.host_id = made.fetch_add(1) % 2 == 0 ? "one" : "two";
  }));
}

// One member is late: it makes the group, and calls, when the others wait for it already.
std::string late_member(int rank, Member& member) {
  for (int i = 0; i < 20; ++i) {
    if (rank == i % 3) {
      if (const std::string wrong = sum_in(*member.group, 4); !wrong.empty()) return wrong;
    }
    auto made = duplicate(member, member.group);
    if (!made.is_ok()) return made.status().message();
    std::vector<float> v(8, 1.0F);
    auto work = made.value()->start(all_reduce(v));
    if (!work.is_ok()) return work.status().message();
    if (rank != i % 3) {
      if (const std::string wrong = sum_in(*member.group, 4); !wrong.empty()) return wrong;
    }
    if (Status s = work.value()->wait(seconds(60)); !s.is_ok()) return s.message();
    // An op under way ends before the group does.
    auto last = made.value()->start(all_reduce(v));
    if (!last.is_ok()) return last.status().message();
    if (Status s = made.value()->close(seconds(60)); !s.is_ok()) return s.message();
    if (Status s = last.value()->wait(seconds(60)); !s.is_ok()) return s.message();
    if (v[7] != 9.0F) return "wrong sum";
  }
  return "";
}

TEST_CASE("the first op waits for who is late, and the last one ends before the group") {
  for (const std::string transport : {"shm", "tcp"}) {
    expect_no_errors(run_world(3, transport, late_member));
  }
}

}  // namespace
}  // namespace holdfast::runtime
