// The windows of what streams through a rank: near paths have a constant one, far ones what they
// hold, and an op has no more memory for all of its windows than a limit of this process.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/engine/path_room.h"
#include "comm/engine/program.h"
#include "comm/engine/windows.h"
#include "comm/transport/null_link.h"

namespace holdfast::comm {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kGbit = 125'000'000;  // bytes a second
constexpr std::uint64_t kMiB = 1ULL << 20;

std::uint64_t room(std::int64_t trip_ns, std::int64_t rate) {
  LinkMeter meter;
  meter.least_round_trip_ns.set(trip_ns);
  meter.bytes_per_s.set(rate);
  return path_room(meter);
}

// Lowers rank 0's part of a ring of `size`, whose chunks have `chunk_bytes`, over links with this
// round trip.
Program lower_ring(int size, std::uint64_t chunk_bytes, std::int64_t trip_ns, BufferPool& pool) {
  std::vector<std::unique_ptr<NullLink>> links;
  std::vector<Link*> by_rank;
  LinkMeter meter;
  meter.least_round_trip_ns.set(trip_ns);
  for (int r = 0; r < size; ++r) {
    links.push_back(std::make_unique<NullLink>());
    links.back()->set_meter(&meter);
    by_rank.push_back(links.back().get());
  }
  LoweringSpace space;
  space.links = &by_rank;
  const FusedSchedule ring(
      build_ring_all_reduce({Collective::kAllReduce, {0}, size, {0}, nullptr}));
  const std::uint64_t count = chunk_bytes / sizeof(float) * static_cast<std::uint64_t>(size);
  // The lowering looks at addresses only.
  const std::unique_ptr<float[]> memory(new float[count]);
  const Block block{reinterpret_cast<std::byte*>(memory.get()), count};
  const Layout layout = make_layout(ring.schedule, {block}, {block}, sizeof(float));
  const Arithmetic arithmetic{DType::kF32, ReduceOp::kSum, static_cast<std::uint32_t>(size)};
  return lower(ring, layout, arithmetic, pool, {}, space);
}

std::vector<std::uint64_t> windows_of(const Program& program) {
  std::vector<std::uint64_t> windows;
  for (const Instruction& i : program.instructions) {
    if (i.kind == InstructionKind::kRecv && i.window > 0) windows.push_back(i.window);
  }
  return windows;
}

TEST_CASE("a path has room for twice what it holds, between two limits") {
  CHECK(path_room({}) == kNearRoom);
  CHECK(room(kMs, 100 * kGbit) == kNearRoom);      // near, whatever its rate
  CHECK(room(20 * kMs, 0) == 8 * kMiB);            // far, of unknown rate: 1 Gbit/s
  CHECK(room(20 * kMs, kGbit / 100) == 8 * kMiB);  // what is sent may be little
  CHECK(room(150 * kMs, 0) == 64 * kMiB);
  CHECK(room(20 * kMs, 10 * kGbit) == 64 * kMiB);
  CHECK(room(3600'000 * kMs, 100 * kGbit) == kMostRoom);
  LinkMeter smoothed;  // of a kernel that does not say the least
  smoothed.round_trip_ns.set(150 * kMs);
  CHECK(path_room(smoothed) == 64 * kMiB);
}

TEST_CASE("what streams through a rank has the room of the path that it comes by") {
  BufferPool pool;
  CHECK(windows_of(lower_ring(3, 12 * kMiB, 0, pool)) == std::vector<std::uint64_t>{kNearRoom});
  CHECK(windows_of(lower_ring(3, 12 * kMiB, 20 * kMs, pool)) ==
        std::vector<std::uint64_t>{8 * kMiB});
  // What would hold the chunk is no window.
  CHECK(windows_of(lower_ring(3, 12 * kMiB, 150 * kMs, pool)).empty());
}

TEST_CASE("the windows of an op share what they have beyond those of near paths") {
  constexpr int kRanks = 12;
  BufferPool pool;
  const Program program = lower_ring(kRanks, 20 * kMiB, 500 * kMs, pool);
  const std::vector<std::uint64_t> windows = windows_of(program);
  REQUIRE(windows.size() == kRanks - 2);
  std::uint64_t together = 0;
  for (const std::uint64_t window : windows) {
    CHECK(window == 14 * kMiB);  // 2 MiB, and a tenth of 128 MiB in whole rooms
    together += window;
  }
  CHECK(together <= kMostWidening + windows.size() * kNearRoom);
  CHECK(program.scratch.capacity <= 2 * (kMostWidening + windows.size() * kNearRoom));
}

TEST_CASE("what a link has measured goes with it to another meter") {
  NullLink link;
  LinkMeter first;
  LinkMeter second;
  first.least_round_trip_ns.set(7);
  first.bytes_per_s.set(9);
  second.bytes_per_s.set(11);
  CHECK(link.measured().least_round_trip_ns.value() == 0);
  link.set_meter(&first);
  link.set_meter(&second);
  CHECK(link.measured().least_round_trip_ns.value() == 7);
  CHECK(link.measured().bytes_per_s.value() == 11);
}

}  // namespace
}  // namespace holdfast::comm
