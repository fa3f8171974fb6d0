// Weighted averages in the engine: each algorithm of the catalogue gives the bits that it gives for
// inputs which were scaled beforehand, whatever streams, and no rank's input changes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "comm/algorithms/catalogue.h"
#include "comm/engine/weighed_run.h"
#include "comm/schedule/reference.h"
#include "link_world.h"

namespace holdfast::comm {
namespace {

using testing::LinkWorld;
using Floats = std::vector<float>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("scales are parts of the largest weight, and what is no weight counts as 0") {
  const std::vector<double> weights{4, 0, 1, kNan, -3, 4};
  const WeightScales scales{weights};
  CHECK(scales.of(0) == 1);
  CHECK(scales.of(1) == 0);
  CHECK(scales.of(2) == 0.25);
  CHECK(scales.of(3) == 0);
  CHECK(scales.of(4) == 0);
  CHECK(scales.total() == 2.25);
  CHECK(scales.weighing_of(2).divides());
  CHECK_FALSE(WeightScales(std::vector<double>{0, 0}).weighing_of(0).divides());
  const double huge = std::numeric_limits<double>::max();
  CHECK(WeightScales(std::vector<double>{huge, huge}).total() == 2);
}

TEST_CASE("a scale of 0 gives 0 and a scale of 1 the same bits, whatever is scaled") {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kC64}) {
    CAPTURE(dtype_name(dtype));
    const std::size_t bytes = 5 * dtype_bytes(dtype);
    std::vector<std::byte> nans(bytes, std::byte{0xff});
    std::vector<std::byte> out(bytes, std::byte{1});
    scale_kernel(dtype)(out.data(), nans.data(), 5, 1);
    CHECK(out == nans);
    scale_kernel(dtype)(out.data(), nans.data(), 5, 0);
    CHECK(out == std::vector<std::byte>(bytes));
  }
  CHECK_FALSE(takes_weights(DType::kI32));
  CHECK_FALSE(takes_weights(DType::kBool));
}

TEST_CASE("dividing by a whole total gives the bits of a plain average") {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kF8E5M2}) {
    CAPTURE(dtype_name(dtype));
    std::vector<std::uint8_t> sums(256 * dtype_bytes(dtype));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<std::uint8_t>(i * 37 % 101);
    for (const std::uint32_t ranks : {2U, 3U, 7U}) {
      auto shared = sums;
      auto divided = sums;
      share_kernel(dtype)(shared.data(), 256, ranks);
      divide_kernel(dtype)(divided.data(), 256, ranks);
      CHECK(shared == divided);
    }
  }
}

struct Case {
  const AlgorithmRow& row;
  int size = 1;
  std::size_t count = 0;  // elements of a block
  bool in_place = false;
  std::vector<double> weights = {};

  BuildSpec spec(int rank) const { return {row.collective, {rank}, size, {}, nullptr}; }
  std::size_t inputs() const {
    return has_input_blocks(row.collective) ? static_cast<std::size_t>(size) : 1;
  }
};

// One rank's memory.
struct Held {
  std::vector<Floats> input;
  Floats output;
  bool in_place = false;

  Held(const Case& c, int rank) : in_place(c.in_place && c.inputs() == 1) {
    std::uint32_t state = 12345U + static_cast<std::uint32_t>(rank) * 977U;
    input.assign(c.inputs(), Floats(c.count));
    for (Floats& block : input) {
      for (float& x : block) {
        state = state * 1664525U + 1013904223U;
        x = static_cast<float>(state >> 8) * 1e-5F;
      }
    }
    const bool has = has_result(c.row.collective, rank == 0);
    output.assign(has ? c.count : 0, -1.0F);
    in_place = in_place && has;
  }
  static Block block(Floats& of) { return {reinterpret_cast<std::byte*>(of.data()), of.size()}; }
  BlockList in() {
    BlockList blocks;
    for (Floats& one : input) blocks.push_back(block(one));
    return blocks;
  }
  BlockList out() {
    if (output.empty()) return {};
    return {in_place ? block(input[0]) : block(output)};
  }
  const Floats& result() const { return in_place ? input[0] : output; }
};

// The plain sum of inputs that were scaled before, then divided.
std::vector<Floats> expected(const Case& c) {
  const WeightScales scales(c.weights);
  std::vector<Schedule> schedules;
  std::vector<Held> held;
  std::vector<ReferenceRank> ranks;
  for (int r = 0; r < c.size; ++r) {
    schedules.push_back(c.row.build(c.spec(r)));
    held.emplace_back(c, r);
    for (Floats& block : held.back().input) {
      scale_kernel(DType::kF32)(block.data(), block.data(), block.size(), scales.of(r));
    }
  }
  const auto list = [](const BlockList& of) { return std::vector<Block>(of.begin(), of.end()); };
  for (Held& one : held) ranks.push_back({list(one.in()), list(one.out())});
  REQUIRE(run_reference(schedules, ranks, DType::kF32, ReduceOp::kSum).is_ok());
  std::vector<Floats> results;
  for (Held& one : held) {
    results.push_back(one.result());
    if (one.output.empty() || !scales.weighing_of(0).divides()) continue;
    share_kernel(DType::kF32)(results.back().data(), results.back().size(), scales.total());
  }
  return results;
}

bool all_finish(LinkWorld& world, std::vector<std::unique_ptr<WeighedRun>>& runs) {
  const auto finished = [](const auto& run) { return run->finished(); };
  for (int idle = 0; !std::all_of(runs.begin(), runs.end(), finished) && idle < 3;) {
    bool moved = world.pump();
    for (auto& run : runs) {
      moved = moved || run->touched();
      run->advance();
      REQUIRE_MESSAGE(!run->failed(), run->failure().message());
    }
    idle = moved ? 0 : idle + 1;
  }
  return std::all_of(runs.begin(), runs.end(), finished);
}

void compare(LinkWorld& world, const Case& c, std::uint32_t op) {
  CAPTURE(c.row.algorithm);
  CAPTURE(collective_name(c.row.collective));
  CAPTURE(c.size);
  CAPTURE(c.count);
  BufferPool pool;
  LoweringSpace space;
  std::vector<Held> held;
  std::vector<std::unique_ptr<WeighedRun>> runs;
  for (int r = 0; r < c.size; ++r) held.emplace_back(c, r);
  for (int r = 0; r < c.size; ++r) {
    const auto i = static_cast<std::size_t>(r);
    const AlgorithmRow& gathers = *find_algorithm(Collective::kAllGather, "bruck");
    const FusedSchedule gather(gathers.build({Collective::kAllGather, {r}, c.size}));
    const FusedSchedule schedule(c.row.build(c.spec(r)));
    Layout layout = make_layout(schedule.schedule, held[i].in(), held[i].out(), sizeof(float));
    const Arithmetic average{DType::kF32, ReduceOp::kAvg, static_cast<std::uint32_t>(c.size)};
    runs.push_back(std::make_unique<WeighedRun>(
        c.weights[i], gather,
        WeighedRun::Later{schedule, std::move(layout), average, {}, {{1}, {0}, op, 0, 0}},
        WeighedRun::EngineRoom{pool, space, world.links[i]}));
  }
  REQUIRE(all_finish(world, runs));
  const std::vector<Floats> right = expected(c);
  for (std::size_t r = 0; r < held.size(); ++r) {
    CAPTURE(r);
    const Floats& got = held[r].result();
    if (!held[r].output.empty()) {
      CHECK(
          (c.count == 0 || std::memcmp(got.data(), right[r].data(), c.count * sizeof(float)) == 0));
    }
    if (!held[r].in_place) CHECK(held[r].input == Held(c, static_cast<int>(r)).input);
    runs[r]->stop();
  }
}

bool averages(const AlgorithmRow& row) {
  return reduces(row.collective) && !is_scan(row.collective);
}

TEST_CASE("every algorithm weighs each input once") {
  for (int size = 1; size <= 6; ++size) {
    LinkWorld world(testing::transports()[0], size);
    std::uint32_t op = 0;
    for (const AlgorithmRow& row : catalogue()) {
      if (!averages(row)) continue;
      for (const std::size_t count : {0UL, 1UL, 37UL, 4099UL}) {
        std::vector<double> weights;
        for (int r = 0; r < size; ++r) weights.push_back(r == 1 ? 0 : 3.7 * r + 1);
        compare(world, {row, size, count, count % 2 == 1, weights}, op++);
      }
    }
  }
}

TEST_CASE("inputs that are sent stream through windows, over every transport") {
  for (const auto& row : testing::transports()) {
    CAPTURE(row.name);
    LinkWorld world(row, 3);
    std::uint32_t op = 0;
    for (const char* algorithm : {"ring", "flat"}) {
      const AlgorithmRow& ring = *find_algorithm(Collective::kAllReduce, algorithm);
      compare(world, {ring, 3, 3'000'001, false, {1, 2, 0.3}}, op++);
      compare(world, {ring, 3, 3'000'001, true, {0, 2, 7}}, op++);
    }
  }
}

TEST_CASE("equal weights give a plain average, and no weight at all zeros") {
  LinkWorld world(testing::transports()[0], 3);
  const AlgorithmRow& row = *find_algorithm(Collective::kAllReduce, "ring");
  compare(world, {row, 3, 1000, false, {32, 32, 32}}, 0);
  const Case none{row, 3, 1000, false, {0, 0, 0}};
  CHECK(expected(none)[1] == Floats(1000));
  compare(world, none, 1);
}

}  // namespace
}  // namespace holdfast::comm
