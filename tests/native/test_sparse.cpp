// Sparse worlds: which members are neighbours, and that ops and messages find the others.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ft/neighbours.h"
#include "worlds.h"

namespace holdfast {
namespace {

using testing::all_reduce;
using testing::block;
using testing::expect_no_errors;
using testing::Member;
using testing::Options;
using testing::run_world;
using testing::seconds;

ft::WorldView view_of(int ranks, const std::vector<int>& vacant = {}) {
  ft::WorldView view;
  for (int r = 0; r < ranks; ++r) view.members.push_back({static_cast<std::uint64_t>(r) + 1});
  for (const int r : vacant) view.members[static_cast<std::size_t>(r)] = ft::kNobody;
  view.cards.resize(view.members.size());
  return view;
}

std::vector<int> ranks_near(const ft::WorldView& view, int rank, bool led) {
  std::vector<int> ranks;
  for (const MemberId m : ft::neighbours(view, {static_cast<std::uint64_t>(rank) + 1}, led)) {
    ranks.push_back(static_cast<int>(m.value) - 1);
  }
  return ranks;
}

TEST_CASE("a member's neighbours are two ranks on either side, and who coordinates") {
  const auto view = view_of(10);
  CHECK(ranks_near(view, 5, true) == std::vector{3, 4, 6, 7});
  CHECK(ranks_near(view, 5, false) == std::vector{0, 3, 4, 6, 7});
  CHECK(ranks_near(view, 9, true) == std::vector{0, 1, 7, 8});
  CHECK(ranks_near(view, 0, false) == std::vector{1, 2, 3, 4, 5, 6, 7, 8, 9});
  // Vacant ranks are left out, and the first that is there coordinates.
  const auto later = view_of(10, {0, 4});
  CHECK(ranks_near(later, 5, false) == std::vector{1, 2, 3, 6, 7});
  CHECK(ranks_near(later, 0, false).empty());
  CHECK(ft::near_members(view_of(3).members, {1}).size() == 2);
  CHECK(ft::near_members(view_of(1).members, {1}).empty());
}

TEST_CASE("neighbours have each other, and their number does not grow with the world") {
  for (const int ranks : {2, 3, 4, 5, 6, 7, 33, 200, 1000}) {
    for (const bool led : {false, true}) {
      const auto view = view_of(ranks, {ranks / 3, ranks / 2});
      for (int a = 0; a<ranks; a += ranks> 100 ? 7 : 1) {
        const auto near = ranks_near(view, a, led);
        const bool first = a == (ranks / 3 == 0 || ranks / 2 == 0 ? 1 : 0);
        if (led || !first) CHECK(near.size() <= 5);
        for (const int b : near) {
          const auto back = ranks_near(view, b, led);
          CHECK(std::find(back.begin(), back.end(), a) != back.end());
        }
      }
    }
  }
}

TEST_CASE("small worlds are full by themselves, large ones sparse, and either if asked") {
  CHECK_FALSE(ft::is_sparse(ft::Mesh::kAuto, 32));
  CHECK(ft::is_sparse(ft::Mesh::kAuto, 33));
  CHECK(ft::is_sparse(ft::Mesh::kSparse, 2));
  CHECK_FALSE(ft::is_sparse(ft::Mesh::kFull, 4096));
}

std::string wait_for(Member& member, comm::OpRequest request) {
  auto work = member.group->start(std::move(request));
  if (!work.is_ok()) return work.status().message();
  return work.value()->wait(seconds(60)).message();
}

// Each rank sends to one that is no neighbour, and receives from another one.
std::string send_far(int rank, Member& member) {
  const int n = member.group->size();
  std::vector<float> out(100, static_cast<float>(rank));
  std::vector<float> in(100, -1.F);
  comm::OpRequest send;
  send.collective = comm::Collective::kSend;
  send.peer = {(rank + 4) % n};
  send.input = {block(out)};
  comm::OpRequest recv;
  recv.collective = comm::Collective::kRecv;
  recv.peer = {(rank + n - 4) % n};
  recv.output = {block(in)};
  auto sent = member.group->start(send);
  auto received = member.group->start(recv);
  if (!sent.is_ok() || !received.is_ok()) return "not started";
  if (Status s = received.value()->wait(seconds(60)); !s.is_ok()) return s.message();
  if (Status s = sent.value()->wait(seconds(60)); !s.is_ok()) return s.message();
  return in[0] == static_cast<float>((rank + n - 4) % n) ? "" : "another rank's message";
}

std::string every_way(int rank, Member& member) {
  const int n = member.group->size();
  for (const std::size_t count : {1UL, 1000UL, 100'000UL}) {
    std::vector<float> v(count, static_cast<float>(rank));
    if (auto error = wait_for(member, all_reduce(v)); !error.empty()) return error;
    if (v.back() != static_cast<float>(n * (n - 1) / 2)) return "wrong sum";
  }
  if (auto error = send_far(rank, member); !error.empty()) return error;
  std::vector<float> word(1, rank == 3 ? 7.F : 0.F);
  comm::OpRequest broadcast;
  broadcast.collective = comm::Collective::kBroadcast;
  broadcast.root = {3};
  broadcast.input = broadcast.output = {block(word)};
  if (auto error = wait_for(member, broadcast); !error.empty()) return error;
  return word[0] == 7.F ? "" : "another word";
}

std::string all_to_all(int rank, Member& member) {
  const int n = member.group->size();
  std::vector<float> out(static_cast<std::size_t>(n), static_cast<float>(rank));
  std::vector<float> in(out.size(), -1.F);
  comm::OpRequest request;
  request.collective = comm::Collective::kAllToAll;
  for (int r = 0; r < n; ++r) {
    const auto at = static_cast<std::size_t>(r);
    request.input.push_back({reinterpret_cast<std::byte*>(&out[at]), 1});
    request.output.push_back({reinterpret_cast<std::byte*>(&in[at]), 1});
  }
  if (auto error = wait_for(member, request); !error.empty()) return error;
  for (int r = 0; r < n; ++r) {
    if (in[static_cast<std::size_t>(r)] != static_cast<float>(r)) return "another rank's block";
  }
  return "";
}

TEST_CASE("ranks that are not connected meet in the ops that need them") {
  const auto sparse = [](Options& options) { options.mesh = "sparse"; };
  for (const std::string transport : {"tcp", "shm"}) {
    CAPTURE(transport);
    expect_no_errors(run_world(
        9, transport,
        [](int rank, Member& member) {
          std::string error = every_way(rank, member);
          if (error.empty()) error = all_to_all(rank, member);
          const Status closed = member.group->close(seconds(30));
          return error.empty() ? closed.message() : error;
        },
        sparse));
  }
}

}  // namespace
}  // namespace holdfast
