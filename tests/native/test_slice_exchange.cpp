// The slice exchange, and what is fetched from where it lies, against the reference run of the
// schedules: the same bits on every rank, whatever the order in which ranks get on, and only final
// values in what is held.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "comm/algorithms/catalogue.h"
#include "comm/schedule/reference.h"
#include "host_areas.h"
#include "sanitized.h"
#include "sim/random.h"

namespace holdfast::comm {
namespace {

using testing::blocks;
using testing::make_memory;
using testing::Memory;

constexpr std::uint64_t kSlice = 1024;

// Every rank's exchange in one process.
class Host {
 public:
  explicit Host(int size, bool reach = false, std::uint64_t slice_bytes = kSlice,
                unsigned lenders = testing::kNobody)
      : areas_(size), size_(size), reach_(reach), lenders_(lenders), slice_bytes_(slice_bytes) {
    enter(Epoch{1});
  }
  void enter(Epoch epoch, std::uint64_t done = 0) {
    ranks_.clear();
    for (int r = 0; r < size_; ++r) {
      ranks_.push_back(std::make_unique<SliceExchange>(
          Rank{r}, epoch, areas_.peers(reach_, lenders_), slice_bytes_, SliceLane::kBulk, done));
    }
  }
  SliceExchange& rank(std::size_t r) { return *ranks_[r]; }
  testing::HostAreas& areas() { return areas_; }

 private:
  testing::HostAreas areas_;
  int size_;
  bool reach_;
  unsigned lenders_;
  std::uint64_t slice_bytes_;
  std::vector<std::unique_ptr<SliceExchange>> ranks_;
};

// One collective on all ranks, and what it should give.
struct World {
  World(Collective c, int size, int root, std::size_t count, bool in_place = false)
      : collective_(c), root_(root), count_(count) {
    std::vector<Schedule> schedules;
    std::vector<ReferenceRank> reference;
    for (int r = 0; r < size; ++r) {
      ours.push_back(make_memory(c, size, r, count));
      theirs.push_back(make_memory(c, size, r, count));
      const char* algorithm = c == Collective::kAllToAll ? "pairwise" : "flat";
      schedules.push_back(find_algorithm(c, algorithm)->build({c, {r}, size, {root}}));
    }
    for (std::size_t r = 0; r < ours.size(); ++r) {
      OpRequest request;
      request.collective = c;
      request.root = {root};
      request.input = blocks(ours[r].input);
      request.output = blocks(ours[r].output);
      if (in_place) alias(request, r);

      requests.push_back(request);
      reference.push_back({blocks(theirs[r].input), blocks(theirs[r].output)});
    }
    REQUIRE(run_reference(schedules, reference, DType::kF32, ReduceOp::kSum).is_ok());
  }

  void alias(OpRequest& request, std::size_t r) const {
    if (collective_ == Collective::kAllGather) {
      std::copy_n(request.input[0].data, count_ * sizeof(float), request.output[r].data);
      request.input[0] = request.output[r];
    } else {
      request.output[0] = request.input[collective_ == Collective::kReduceScatter ? r : 0];
    }
  }

  bool has_result(std::size_t r) const {
    const bool at_root = collective_ == Collective::kReduce || collective_ == Collective::kGather;
    return !at_root || static_cast<int>(r) == root_;
  }
  const float* expected(std::size_t r, std::size_t block) const {
    if (collective_ == Collective::kBroadcast && static_cast<int>(r) == root_) {
      return theirs[r].input[0].data();
    }
    return theirs[r].output[block].data();
  }
  void check() const {
    for (std::size_t r = 0; r < ours.size(); ++r) {
      for (std::size_t b = 0; has_result(r) && b < requests[r].output.size(); ++b) {
        const void* got = requests[r].output[b].data;
        CHECK((count_ == 0 || std::memcmp(got, expected(r, b), count_ * sizeof(float)) == 0));
      }
    }
  }
  // Each byte that a rank says it holds is the result's.
  void check_held(std::size_t r, const Execution& run) const {
    for (const Execution::HeldPiece& held : run.held()) {
      bool found = false;
      for (std::size_t b = 0; b < requests[r].output.size(); ++b) {
        const std::byte* begin = requests[r].output[b].data;
        if (held.data < begin || held.data + held.bytes > begin + count_ * sizeof(float)) continue;
        const auto at = static_cast<std::size_t>(held.data - begin);
        const auto* right = reinterpret_cast<const std::byte*>(expected(r, b)) + at;
        CHECK(std::memcmp(held.data, right, held.bytes) == 0);
        found = true;
      }
      CHECK(found);
    }
  }

  Collective collective_;
  int root_;
  std::size_t count_;
  std::vector<Memory> ours;
  std::vector<Memory> theirs;
  std::vector<OpRequest> requests;
};

// Ranks get on in a random order, some of them much more often.
void drive(Host& host, const World& world, sim::Random& random, std::size_t stop_after = SIZE_MAX) {
  std::vector<std::unique_ptr<Execution>> runs;
  const std::size_t size = world.requests.size();
  for (std::size_t r = 0; r < size; ++r) runs.push_back(host.rank(r).start(world.requests[r], 7));
  std::size_t left = size;
  const std::size_t favourite = random.below(size);
  for (std::size_t turn = 0; left > 0 && turn < stop_after; ++turn) {
    REQUIRE(turn < 1'000'000);
    const std::size_t r = random.chance(50) ? favourite : random.below(size);
    if (runs[r]->finished() || !runs[r]->touched()) continue;
    runs[r]->advance();
    REQUIRE(runs[r]->failure().is_ok());
    if (random.chance(5)) world.check_held(r, *runs[r]);
    if (runs[r]->finished()) --left;
  }
  for (std::size_t r = 0; r < size; ++r) {
    world.check_held(r, *runs[r]);
    runs[r]->stop();
  }
}

// Ops in a row, of ranks that sleep whenever they have nothing to do, until somebody rings them.
// Returns how often that was.
int drive_asleep(Host& host, const std::vector<std::unique_ptr<World>>& ops, sim::Random& random) {
  struct Sleeper {
    std::unique_ptr<Execution> run;
    std::size_t op = 0;
    bool in_round = false;
    bool asleep = false;
  };
  std::vector<Sleeper> ranks(ops[0]->requests.size());
  int woken = 0;
  std::size_t left = ranks.size();
  for (int idle = 0; left > 0;) {
    const std::size_t r = random.below(ranks.size());
    Sleeper& s = ranks[r];
    REQUIRE(++idle < 10'000);  // else all of them sleep
    if (s.op == ops.size()) continue;
    if (s.asleep && host.areas().sleeps(r)) continue;
    woken += s.asleep ? 1 : 0;
    s.asleep = false;
    if (!s.run) s.run = host.rank(r).start(ops[s.op]->requests[r], 7);
    if (!s.run->touched()) {
      host.areas().lull(r);
      s.asleep = !s.run->touched();
      continue;
    }
    idle = 0;
    s.run->advance();
    REQUIRE(s.run->failure().is_ok());
    if (!s.run->finished()) continue;
    s.in_round = !s.in_round;
    s.run = s.in_round ? host.rank(r).make_round() : nullptr;
    if (s.in_round) continue;
    if (++s.op == ops.size()) --left;
  }
  return woken;
}

constexpr Collective kCarried[] = {Collective::kAllReduce, Collective::kBroadcast,
                                   Collective::kReduce, Collective::kAllGather,
                                   Collective::kReduceScatter};

TEST_CASE("the slice exchange folds as the flat schedule does") {
  sim::Random random(1);
  for (const int size : {2, 3, 4, 8}) {
    Host host(size);
    for (const std::size_t count : {1UL, 63UL, 256UL, 257UL, 5000UL}) {
      for (const Collective c : kCarried) {
        for (const bool in_place : {false, true}) {
          CAPTURE(collective_name(c));
          CAPTURE(size);
          CAPTURE(count);
          const World world(c, size, static_cast<int>(random.below(static_cast<unsigned>(size))),
                            count, in_place);
          drive(host, world, random);
          world.check();
        }
      }
    }
  }
}

TEST_CASE("blocks are fetched from where they lie") {
  sim::Random random(4);
  for (const int size : {2, 3, 8}) {
    Host host(size, true);
    for (const std::size_t count : {0UL, 1UL, 100UL, 5000UL, 100'000UL}) {
      for (const Collective c :
           {Collective::kAllGather, Collective::kBroadcast, Collective::kAllToAll,
            Collective::kGather, Collective::kScatter}) {
        CAPTURE(collective_name(c));
        CAPTURE(size);
        CAPTURE(count);
        const World world(c, size, static_cast<int>(random.below(static_cast<unsigned>(size))),
                          count, c == Collective::kAllGather && random.chance(50));
        REQUIRE(host.rank(0).exposes(world.requests[0]));
        drive(host, world, random);
        world.check();
      }
    }
  }
}

TEST_CASE("ranks that sleep are woken in time, and once for all that they wait for") {
  constexpr std::size_t kLong = holdfast::testing::kSanitized ? 30'000 : 300'000;
  sim::Random random(9);
  for (const bool reach : {false, true}) {
    for (const unsigned lenders : {testing::kNobody, 5U, testing::kEverybody}) {
      for (const int size : {2, 3, 4, 8}) {
        Host host(size, reach, kSlice, lenders);
        for (int turn = 0; turn < (holdfast::testing::kSanitized ? 2 : 8); ++turn) {
          std::vector<std::unique_ptr<World>> ops;
          for (int i = 0; i < 5; ++i) {
            const std::size_t count = 1 + random.below(random.chance(20) ? kLong : 3000);
            ops.push_back(std::make_unique<World>(kCarried[random.below(5)], size,
                                                  static_cast<int>(random.below(2)), count));
          }
          drive_asleep(host, ops, random);
          for (const auto& op : ops) op->check();
        }
      }
    }
  }
}

TEST_CASE("a rank is woken about once for each stage of an op") {
  constexpr int kSize = 8;
  constexpr int kOps = 20;
  sim::Random random(2);
  Host host(kSize, true);
  // Until all have begun, or ended; a sum's operands, and its parts, are waited for as well. Twice
  // as often where everybody wakes everybody.
  for (const Collective c :
       {Collective::kAllToAll, Collective::kAllGather, Collective::kAllReduce}) {
    const int stages = c == Collective::kAllReduce ? 2 : 1;
    CAPTURE(collective_name(c));
    std::vector<std::unique_ptr<World>> ops;
    for (int i = 0; i < kOps; ++i) {
      ops.push_back(std::make_unique<World>(c, kSize, 0, kSlice / sizeof(float)));
    }
    const int woken = drive_asleep(host, ops, random);
    CHECK(woken > 0);
    CHECK(woken <= kOps * kSize * (2 * stages + 1) / 2);
  }
}

TEST_CASE("what is held of a stopped op is final, and the next view counts on") {
  sim::Random random(2);
  Host host(4);
  for (std::uint32_t epoch = 1; epoch < 200; ++epoch) {
    const Collective c = kCarried[random.below(std::size(kCarried))];
    const World stopped(c, 4, 1, 3000, random.chance(50));
    drive(host, stopped, random, random.below(200));
    host.enter(Epoch{epoch + 1});
    const World whole(c, 4, 2, 700);
    drive(host, whole, random);
    whole.check();
  }
}

TEST_CASE("ops, slices and views go on beyond the bits of their counters") {
  sim::Random random(7);
  for (const unsigned lenders : {testing::kNobody, testing::kEverybody}) {
    for (const std::uint32_t around : {8U, 1U << 15, 1U << 16, 1U << 17}) {
      Host host(3, true, kSlice, lenders);
      for (std::uint32_t epoch = around - 4; epoch < around + 4; ++epoch) {
        host.enter(Epoch{epoch}, testing::kNearlyFull);
        for (const Collective c : kCarried) {
          const World whole(c, 3, 0, 3000);
          drive(host, whole, random);
          whole.check();
        }
        const World stopped(kCarried[random.below(std::size(kCarried))], 3, 1, 3000);
        drive(host, stopped, random, random.below(100));
      }
    }
  }
}

TEST_CASE("what lies in pools is reduced from there as from slots, whoever has one") {
  sim::Random random(5);
  for (const unsigned lenders : {testing::kEverybody, 1U, 0b1010U}) {
    for (const int size : {2, 3, 4}) {
      Host host(size, false, kSlice, lenders);
      for (const std::size_t count : {65UL, 257UL, 5000UL}) {
        for (const Collective c :
             {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
          CAPTURE(collective_name(c));
          CAPTURE(size);
          CAPTURE(count);
          CAPTURE(lenders);
          const World world(c, size, static_cast<int>(random.below(static_cast<unsigned>(size))),
                            count, c == Collective::kAllReduce);
          drive(host, world, random);
          world.check();
        }
      }
    }
  }
}

TEST_CASE("an op over pools that is stopped leaves every rank its input, or a final value") {
  sim::Random random(6);
  Host host(4, true, kSlice, testing::kEverybody);
  for (std::uint32_t epoch = 1; epoch < 200; ++epoch) {
    const World stopped(Collective::kAllReduce, 4, 1, 3000, true);
    const World before(Collective::kAllReduce, 4, 1, 3000);
    drive(host, stopped, random, random.below(200));
    for (std::size_t r = 0; r < 4; ++r) {
      const auto* now = reinterpret_cast<const float*>(stopped.requests[r].output[0].data);
      for (std::size_t i = 0; i < 3000; ++i) {
        const bool sound =
            now[i] == before.ours[r].input[0][i] || now[i] == stopped.expected(r, 0)[i];
        REQUIRE(sound);
      }
    }
    host.enter(Epoch{epoch + 1});
    const World whole(Collective::kAllToAll, 4, 2, 700);
    drive(host, whole, random);
    whole.check();
  }
}

TEST_CASE("lent memory that was taken back is part of no result") {
  Host host(2, false, kSlice, testing::kEverybody);
  World world(Collective::kAllReduce, 2, 0, 3000, true);
  const World before(Collective::kAllReduce, 2, 0, 3000);
  const auto a = host.rank(0).start(world.requests[0], 1);
  const auto b = host.rank(1).start(world.requests[1], 1);
  REQUIRE(host.rank(0).lends(world.requests[0]));
  a->advance();
  a->stop();
  std::fill(world.ours[0].input[0].begin(), world.ours[0].input[0].end(), 3.0F);
  for (int i = 0; i < 10; ++i) b->advance();
  CHECK_FALSE(b->finished());
  CHECK_FALSE(b->touched());
  CHECK(b->waited_for() == std::vector<Rank>{{0}});
  CHECK(b->held().empty());
  CHECK(world.ours[1].input[0] == before.ours[1].input[0]);
}

TEST_CASE("every dtype and reduction, averages too") {
  sim::Random random(3);
  Host host(3);
  for (const DType dtype : {DType::kBF16, DType::kF64, DType::kI8, DType::kC128}) {
    std::vector<std::vector<std::byte>> memory(3, std::vector<std::byte>(16 * 999));
    std::vector<OpRequest> requests;
    for (auto& m : memory) {
      OpRequest request;
      request.collective = Collective::kAllReduce;
      request.dtype = dtype;
      request.op = ReduceOp::kMax;
      request.input = {{m.data(), 999}};
      request.output = request.input;
      requests.push_back(request);
    }
    for (std::size_t i = 0; i < 999 * dtype_bytes(dtype); ++i) {
      for (std::size_t r = 0; r < 3; ++r) memory[r][i] = static_cast<std::byte>(i % 7);
    }
    if (!reduce_defined(dtype, ReduceOp::kMax)) {
      for (OpRequest& request : requests) request.op = ReduceOp::kAvg;
      for (auto& m : memory) std::fill(m.begin(), m.end(), std::byte{0});
    }
    const std::vector<std::byte> before = memory[0];
    std::vector<std::unique_ptr<Execution>> runs;
    for (std::size_t r = 0; r < 3; ++r) runs.push_back(host.rank(r).start(requests[r], 1));
    for (int turn = 0; turn < 10'000; ++turn) runs[static_cast<std::size_t>(turn) % 3]->advance();
    for (std::size_t r = 0; r < 3; ++r) {
      REQUIRE(runs[r]->finished());
      CHECK(std::equal(before.begin(), before.begin() + 999 * 1, memory[r].begin()));
    }
  }
}

TEST_CASE("memory that was taken back is no result") {
  Host host(2, true);
  World world(Collective::kAllGather, 2, 0, 100'000);
  const auto a = host.rank(0).start(world.requests[0], 1);
  const auto b = host.rank(1).start(world.requests[1], 1);
  a->advance();
  a->stop();
  std::fill(world.ours[0].input[0].begin(), world.ours[0].input[0].end(), 3.0F);
  for (int i = 0; i < 10; ++i) b->advance();
  CHECK_FALSE(b->finished());
  CHECK_FALSE(b->touched());
  CHECK(b->waited_for() == std::vector<Rank>{{0}});
  world.check_held(1, *b);
}

TEST_CASE("memory is exposed until all have fetched") {
  Host host(2, true);
  World world(Collective::kAllGather, 2, 0, 100'000);
  const auto a = host.rank(0).start(world.requests[0], 1);
  const auto b = host.rank(1).start(world.requests[1], 1);
  b->advance();
  a->advance();
  REQUIRE(a->finished());
  const auto round = host.rank(0).make_round();
  round->advance();
  CHECK_FALSE(round->finished());
  CHECK(round->waited_for() == std::vector<Rank>{{1}});
  b->advance();
  REQUIRE(b->finished());
  round->advance();
  CHECK(round->finished());
  world.check();
}

TEST_CASE("blocks of a size that the other does not expect") {
  Host host(2, true);
  const World longer(Collective::kAllToAll, 2, 0, 30);
  const World shorter(Collective::kAllToAll, 2, 0, 29);
  const auto a = host.rank(0).start(longer.requests[0], 1);
  const auto b = host.rank(1).start(shorter.requests[1], 1);
  for (int i = 0; i < 3; ++i) a->advance(), b->advance();
  CHECK(a->failure().message().find("expects 120 bytes of rank 1, which has 116") !=
        std::string::npos);
  CHECK(b->failed());
}

TEST_CASE("ops queue up behind each other") {
  Host host(2);
  const World first(Collective::kAllReduce, 2, 0, 2000);
  const World second(Collective::kAllGather, 2, 0, 900);
  std::vector<std::unique_ptr<Execution>> runs;
  for (const World* world : {&first, &second}) {
    for (std::size_t r = 0; r < 2; ++r) runs.push_back(host.rank(r).start(world->requests[r], 1));
  }
  // The second one's turn has not come.
  CHECK_FALSE(runs[2]->touched());
  for (int turn = 0; turn < 1000; ++turn) {
    for (const std::size_t i : {3UL, 0UL, 2UL, 1UL}) {
      if (runs[i]->touched()) runs[i]->advance();
    }
  }
  for (const auto& run : runs) CHECK(run->finished());
  first.check();
  second.check();
}

TEST_CASE("calls that do not match are found out, and who is waited for") {
  Host host(3);
  const World world(Collective::kAllReduce, 3, 0, 5000);
  const World other(Collective::kAllReduce, 3, 0, 4000);
  const auto a = host.rank(0).start(world.requests[0], 1);
  const auto b = host.rank(1).start(other.requests[1], 1);
  for (int i = 0; i < 100; ++i) a->advance(), b->advance();
  CHECK(a->waited_for() == std::vector<Rank>{{2}});
  const auto c = host.rank(2).start(world.requests[2], 1);
  for (int i = 0; i < 100; ++i) a->advance(), b->advance(), c->advance();
  REQUIRE(a->failed());
  CHECK(a->failed_peer() == Rank{1});
  CHECK(a->failure().message().find("20000 bytes, rank 1 has 16000") != std::string::npos);
  CHECK(b->failed());
  CHECK(c->failed());
}

TEST_CASE("ranks on threads of their own") {
  for (const int size : {2, 4, 3}) {
    Host host(size, false, 4096, size == 4 ? testing::kNobody : testing::kEverybody);
    for (int round = 0; round < 10; ++round) {
      const World world(kCarried[round % 5], size, round % size, 20'000, round > 4);
      std::vector<std::thread> threads;
      for (int r = 0; r < size; ++r) {
        threads.emplace_back([&, r] {
          const auto i = static_cast<std::size_t>(r);
          const auto run = host.rank(i).start(world.requests[i], 3);
          while (!run->finished()) {
            if (run->touched()) {
              run->advance();
            } else {
              std::this_thread::yield();
            }
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      world.check();
    }
  }
}

}  // namespace
}  // namespace holdfast::comm
