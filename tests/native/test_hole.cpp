// What each collective does once a rank has gone: which results have a hole, and who is told.
#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "worlds.h"

namespace holdfast::comm {
namespace {

using std::chrono::seconds;
using testing::block;
using testing::expect_no_errors;
using testing::Member;
using testing::Options;
using testing::run_world;

constexpr int kRanks = 4;
constexpr int kGone = 2;

// What rank `from` gives to rank `to`, or to all.
float given(int from, int to = 0) { return static_cast<float>(10 * (from + 1) + to); }

// One rank's memory for an op whose blocks have `count` elements.
struct Op {
  Collective collective;
  std::size_t count;
  std::vector<float> in = {};
  std::vector<float> out = {};

  OpRequest request(int rank) {
    const bool root = rank == 0;
    const bool many_in = collective == Collective::kReduceScatter ||
                         collective == Collective::kAllToAll ||
                         (collective == Collective::kScatter && root);
    const bool many_out = collective == Collective::kAllGather ||
                          collective == Collective::kAllToAll ||
                          (collective == Collective::kGather && root);
    OpRequest request;
    request.collective = collective;
    if (collective == Collective::kBarrier) return request;
    request.equal_blocks = collective == Collective::kAllToAll;
    in.clear();
    for (int to = 0; to < (many_in ? kRanks : 1); ++to) {
      in.insert(in.end(), count, many_in ? given(rank, to) : given(rank));
    }
    out.assign((many_out ? kRanks : 1) * count, -1);
    request.input = blocks(in);
    request.output = blocks(out);
    const bool takes =
        root || !(collective == Collective::kReduce || collective == Collective::kGather);
    if (!takes) request.output.clear();
    if (collective == Collective::kScatter && !root) request.input.clear();
    if (collective == Collective::kBroadcast) request.output = request.input;
    return request;
  }

  comm::BlockList blocks(std::vector<float>& memory) const {
    comm::BlockList list;
    for (std::size_t at = 0; at < memory.size(); at += count) {
      list.push_back({reinterpret_cast<std::byte*>(memory.data() + at), count});
    }
    return list;
  }
};

struct Ended {
  Status status;
  Outcome outcome;
};

Ended run(Member& member, OpRequest request) {
  auto work = member.group->start(std::move(request));
  if (!work.is_ok()) return {work.status(), {}};
  const Status status = work.value()->wait(seconds(30));
  return {status, work.value()->done() ? work.value()->outcome() : Outcome{}};
}

bool is_hole(const Status& status, Collective collective) {
  return status.code() == Code::kPeerLost && status.ranks() == std::vector<Rank>{{kGone}} &&
         status.epoch() == Epoch{2} && status.message().find(collective_name(collective)) == 0 &&
         status.message().find("on_hole") != std::string::npos;
}

// All ranks but one call every collective after that one has gone.
std::string call_all(int rank, Member& member, std::optional<OnHole> says, bool raises) {
  if (rank == kGone) return member.group->close(seconds(5)).message();
  for (const std::size_t count : {std::size_t{3}, std::size_t{60'000}}) {
    for (int i = 0; i < kCollectiveCount; ++i) {
      const auto collective = static_cast<Collective>(i);
      if (collective == Collective::kSend || collective == Collective::kRecv) continue;
      Op op{collective, count};
      OpRequest request = op.request(rank);
      request.on_hole = says;
      const Ended ended = run(member, std::move(request));
      const std::string name = std::string(collective_name(collective)) + ": ";
      if (raises && gathers(collective)) {
        if (!is_hole(ended.status, collective)) return name + "no hole: " + ended.status.message();
        continue;
      }
      if (!ended.status.is_ok()) return name + ended.status.message();
      if (ended.outcome.missing != std::vector<Rank>{{kGone}}) return name + "another outcome";
      if (!gathers(collective) || op.out.size() < kRanks * count) continue;
      for (int from = 0; from < kRanks; ++from) {
        const int to = collective == Collective::kAllToAll ? rank : 0;
        const float value = op.out[static_cast<std::size_t>(from) * count + count - 1];
        if (value != (from == kGone ? 0 : given(from, to))) return name + "a wrong block";
      }
    }
  }
  return "";
}

TEST_CASE("gathers fail with a hole on all survivors, and everything else goes on") {
  for (const std::string transport : {"shm", "tcp"}) {
    expect_no_errors(run_world(kRanks, transport, [](int rank, Member& member) {
      return call_all(rank, member, std::nullopt, true);
    }));
  }
}

TEST_CASE("a hole is zeros for a call that asks for it, and where the option says so") {
  const auto zero = [](Options& options) { options.on_hole = OnHole::kZero; };
  for (const std::string transport : {"shm", "tcp"}) {
    expect_no_errors(run_world(kRanks, transport, [](int rank, Member& member) {
      return call_all(rank, member, OnHole::kZero, false);
    }));
    expect_no_errors(run_world(
        kRanks, transport,
        [](int rank, Member& member) { return call_all(rank, member, std::nullopt, false); },
        zero));
  }
  expect_no_errors(run_world(
      kRanks, "shm",
      [](int rank, Member& member) { return call_all(rank, member, OnHole::kRaise, true); }, zero));
}

TEST_CASE("without a hole a gather is what it was, and ranks that set it otherwise do not meet") {
  expect_no_errors(run_world(kRanks, "shm", [](int rank, Member& member) -> std::string {
    Op op{Collective::kAllGather, 5};
    const Ended ended = run(member, op.request(rank));
    if (!ended.status.is_ok()) return ended.status.message();
    if (op.out[5 * kGone] != given(kGone)) return "a wrong block";
    // Nobody leaves before all have it.
    return run(member, Op{Collective::kBarrier, 0}.request(rank)).status.message();
  }));
  testing::MemoryStore store;
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      Options options = testing::options_for("tcp");
      if (r == 1) options.on_hole = OnHole::kZero;
      const auto node = testing::Node::create(options);
      const auto group = node.value()->join(store, {"world", {r}, 2, seconds(10), {}});
      errors[static_cast<std::size_t>(r)] = group.status().message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto names_both = [](const std::string& error) {
    return error.find("on_hole: zero") != std::string::npos;
  };
  CHECK_MESSAGE((names_both(errors[0]) || names_both(errors[1])), errors[0], errors[1]);
}

}  // namespace
}  // namespace holdfast::comm
