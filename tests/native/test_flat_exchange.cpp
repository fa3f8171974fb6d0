// The flat exchange against the reference run of the "flat" schedules: the same bits on every rank.
#include <doctest/doctest.h>

#include <cstring>

#include "comm/algorithms/catalogue.h"
#include "comm/schedule/reference.h"
#include "host_areas.h"

namespace holdfast::comm {
namespace {

using testing::blocks;
using testing::make_memory;
using testing::Memory;

// Every rank's exchange in one process, over real segments.
class Host {
 public:
  explicit Host(int size) : areas_(size) { enter(Epoch{1}); }
  void enter(Epoch epoch, std::uint64_t done = 0) {
    ranks_.clear();
    for (int r = 0; r < areas_.size(); ++r) enter(r, epoch, done);
  }
  // One rank, in the others' place too if it comes first.
  void enter(int rank, Epoch epoch, std::uint64_t done = 0) {
    const auto r = static_cast<std::size_t>(rank);
    FlatExchange entered({rank}, epoch, areas_.peers(), done);
    if (r == ranks_.size()) {
      ranks_.push_back(std::move(entered));
    } else {
      ranks_[r] = std::move(entered);
    }
  }

  // Drives all ranks until all have ended.
  void run(const std::vector<OpRequest>& requests, std::uint32_t signature) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].begin(requests[r], signature);
    std::vector<bool> ended(ranks_.size());
    for (std::size_t turn = 0; turn < 10 * ranks_.size(); ++turn) {
      // Another order in every turn: no rank may rely on being early or late.
      const std::size_t r = (turn * 7 + turn / ranks_.size()) % ranks_.size();
      if (!ended[r]) ended[r] = ranks_[r].advance();
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      while (!ended[r]) {
        ended[r] = ranks_[r].advance();
        REQUIRE((ended[r] || ranks_[r].moved()));
      }
      REQUIRE(ranks_[r].failure().is_ok());
      CHECK(ranks_[r].waited_for().empty());
    }
  }

  FlatExchange& rank(std::size_t r) { return ranks_[r]; }

 private:
  testing::HostAreas areas_;
  std::vector<FlatExchange> ranks_;
};

void compare(Host& host, Collective c, int size, int root, std::size_t count) {
  CAPTURE(collective_name(c));
  CAPTURE(size);
  CAPTURE(count);
  std::vector<Memory> ours;
  std::vector<Memory> theirs;
  std::vector<OpRequest> requests;
  std::vector<Schedule> schedules;
  std::vector<ReferenceRank> reference;
  for (int r = 0; r < size; ++r) {
    ours.push_back(make_memory(c, size, r, count));
    theirs.push_back(make_memory(c, size, r, count));
    schedules.push_back(find_algorithm(c, "flat")->build({c, {r}, size, {root}}));
  }
  for (int r = 0; r < size; ++r) {
    const auto i = static_cast<std::size_t>(r);
    OpRequest request;
    request.collective = c;
    request.root = {root};
    request.input = blocks(ours[i].input);
    request.output = blocks(ours[i].output);
    if (c == Collective::kBroadcast && r == root) request.output = request.input;
    requests.push_back(request);
    reference.push_back({blocks(theirs[i].input), blocks(theirs[i].output)});
    REQUIRE(FlatExchange::carries(request, size));
  }
  host.run(requests, 7);
  REQUIRE(run_reference(schedules, reference, DType::kF32, ReduceOp::kSum).is_ok());
  for (std::size_t r = 0; r < ours.size(); ++r) {
    if (c == Collective::kReduce && static_cast<int>(r) != root) continue;
    if (c == Collective::kBroadcast && static_cast<int>(r) == root) continue;
    for (std::size_t b = 0; b < ours[r].output.size(); ++b) {
      const std::size_t bytes = count * sizeof(float);
      const void* got = ours[r].output[b].data();
      CHECK((bytes == 0 || std::memcmp(got, theirs[r].output[b].data(), bytes) == 0));
    }
  }
}

TEST_CASE("the flat exchange folds as the flat schedule does") {
  for (const int size : {2, 3, 4, 8}) {
    Host host(size);
    for (const std::size_t count : {0UL, 1UL, 4UL, 5UL, 250UL, 1000UL}) {
      for (int root = 0; root < size; root += 2) {
        for (const Collective c :
             {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce,
              Collective::kAllGather, Collective::kReduceScatter}) {
          compare(host, c, size, root, count);
        }
      }
    }
  }
}

TEST_CASE("what only moves may fill a slot, and no more") {
  constexpr int kSize = 4;
  constexpr std::size_t kFull = kFlatMoveBytes / sizeof(float);
  Host host(kSize);
  for (const Collective c : {Collective::kBroadcast, Collective::kAllGather}) {
    for (int turn = 0; turn < 3; ++turn) compare(host, c, kSize, 0, kFull);
    Memory memory = make_memory(c, kSize, 0, kFull + 1);
    OpRequest request;
    request.collective = c;
    request.input = blocks(memory.input);
    request.output = blocks(memory.output);
    if (c == Collective::kBroadcast) request.output = request.input;
    CHECK_FALSE(FlatExchange::carries(request, kSize));
  }
  // Within a slot each, and together too much to gather.
  Memory many = make_memory(Collective::kAllGather, 8, 0, kFull);
  OpRequest gather;
  gather.collective = Collective::kAllGather;
  gather.input = blocks(many.input);
  gather.output = blocks(many.output);
  CHECK_FALSE(FlatExchange::carries(gather, 8));
}

TEST_CASE("equal blocks go to all") {
  for (const int size : {2, 3, 8}) {
    Host host(size);
    const std::size_t full = kFlatMoveBytes / sizeof(float) / static_cast<std::size_t>(size);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{250}, full}) {
      std::vector<Memory> memory;
      std::vector<OpRequest> requests;
      for (int r = 0; r < size; ++r) {
        memory.push_back(make_memory(Collective::kAllToAll, size, r, count));
      }
      for (Memory& of_rank : memory) {
        OpRequest request;
        request.collective = Collective::kAllToAll;
        request.equal_blocks = true;
        request.input = blocks(of_rank.input);
        request.output = blocks(of_rank.output);
        REQUIRE(FlatExchange::carries(request, size));
        requests.push_back(std::move(request));
      }
      host.run(requests, 7);
      for (std::size_t to = 0; to < memory.size(); ++to) {
        for (std::size_t from = 0; from < memory.size(); ++from) {
          CHECK(memory[to].output[from] == memory[from].input[to]);
        }
      }
    }
  }
}

TEST_CASE("what the exchange cannot carry is told by the call alone") {
  OpRequest request;
  std::vector<float> large(100'000);
  request.collective = Collective::kAllReduce;
  request.input = {{reinterpret_cast<std::byte*>(large.data()), large.size()}};
  request.output = request.input;
  CHECK_FALSE(FlatExchange::carries(request, 4));
  request.input[0].count = request.output[0].count = 100;
  CHECK(FlatExchange::carries(request, 4));
  CHECK_FALSE(FlatExchange::carries(request, 1));
  request.collective = Collective::kAllToAll;
  CHECK_FALSE(FlatExchange::carries(request, 4));
}

TEST_CASE("ops of a view go on beyond 32 bits") {
  Host host(3);
  host.enter(Epoch{2}, testing::kNearlyFull);
  for (int op = 0; op < 10; ++op) {
    compare(host, Collective::kAllReduce, 3, 0, 250);
    compare(host, Collective::kBroadcast, 3, op % 3, 4);
  }
  host.enter(Epoch{3});
  compare(host, Collective::kAllReduce, 3, 0, 250);
  // One rank has begun the next op when the other ends this one.
  Host pair(2);
  pair.enter(Epoch{2}, testing::kNearlyFull);
  OpRequest barrier;
  barrier.collective = Collective::kBarrier;
  for (std::size_t r : {0UL, 1UL}) pair.rank(r).begin(barrier, 1);
  CHECK_FALSE(pair.rank(0).advance());
  for (std::size_t op = 0; op < 10; ++op) {
    const std::size_t ahead = (op + 1) % 2;
    REQUIRE(pair.rank(ahead).advance());
    pair.rank(ahead).begin(barrier, 1);
    CHECK_FALSE(pair.rank(ahead).advance());
    REQUIRE(pair.rank(op % 2).advance());
    pair.rank(op % 2).begin(barrier, 1);
  }
}

TEST_CASE("views go on beyond the bits that counters have for them") {
  Host host(3);
  for (const std::uint32_t around : {1U << 15, 1U << 16, 1U << 17}) {
    for (std::uint32_t epoch = around - 4; epoch < around + 4; ++epoch) {
      host.enter(Epoch{epoch});
      for (int op = 0; op < 3; ++op) compare(host, Collective::kAllReduce, 3, 0, 100);
    }
  }
}

TEST_CASE("a rank that is left behind ends nothing with what later views publish") {
  OpRequest barrier;
  barrier.collective = Collective::kBarrier;
  for (const std::uint32_t epoch : {1U, (1U << 16) - 1}) {
    for (const std::uint32_t later : {2U, 4U, 32'768U}) {
      Host host(2);
      host.enter(Epoch{epoch});
      host.rank(0).begin(barrier, 1);
      CHECK_FALSE(host.rank(0).advance());
      host.enter(1, Epoch{epoch + later});
      for (int op = 0; op < 3; ++op) {
        host.rank(1).begin(barrier, 1);
        CHECK_FALSE(host.rank(1).advance());
        CHECK_FALSE(host.rank(0).advance());
        host.enter(1, Epoch{epoch + later}, static_cast<std::uint64_t>(op));
      }
    }
  }
}

TEST_CASE("what a rank has published is not taken for its own when views come round") {
  OpRequest barrier;
  barrier.collective = Collective::kBarrier;
  Host host(2);
  host.enter(Epoch{2}, 100);
  host.run({barrier, barrier}, 1);
  // A view that both are in, and in which nobody publishes.
  host.enter(Epoch{6});
  host.enter(0, Epoch{2 + (1U << 16)});
  host.rank(0).begin(barrier, 1);
  CHECK_FALSE(host.rank(0).advance());
  CHECK(host.rank(0).waited_for() == std::vector<Rank>{{1}});
}

TEST_CASE("a rank that has not come is named") {
  Host host(3);
  OpRequest barrier;
  barrier.collective = Collective::kBarrier;
  host.rank(0).begin(barrier, 1);
  host.rank(1).begin(barrier, 1);
  CHECK_FALSE(host.rank(0).advance());
  CHECK_FALSE(host.rank(1).advance());
  CHECK_FALSE(host.rank(0).advance());
  CHECK(host.rank(0).waited_for() == std::vector<Rank>{{2}});
}

}  // namespace
}  // namespace holdfast::comm
