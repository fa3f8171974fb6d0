// The engine over every transport: each algorithm of the catalogue, ranks 1..8, odd sizes, in and
// out of place. Results must equal the reference executor's bit for bit on every rank.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "comm/algorithms/catalogue.h"
#include "comm/engine/run.h"
#include "comm/schedule/reference.h"
#include "fabrics.h"
#include "link_world.h"
#include "sanitized.h"

namespace holdfast::comm {
namespace {

using testing::TransportRow;
using World = testing::LinkWorld;

// One rank's caller-side memory.
struct Buffers {
  std::vector<std::vector<float>> input;
  std::vector<std::vector<float>> output;
  bool in_place = false;

  std::vector<Block> blocks(std::vector<std::vector<float>>& of) {
    std::vector<Block> result;
    for (auto& v : of) result.push_back({reinterpret_cast<std::byte*>(v.data()), v.size()});
    return result;
  }
  std::vector<Block> in() { return blocks(input); }
  std::vector<Block> out() {
    std::vector<Block> result = blocks(output);
    if (in_place && !result.empty() && !input.empty()) result[0].data = in()[0].data;
    return result;
  }
  std::vector<float> result() const {
    std::vector<float> all;
    const bool aliased = in_place && !output.empty() && !input.empty();
    if (aliased) all = input[0];
    for (std::size_t i = aliased ? 1 : 0; i < output.size(); ++i) {
      all.insert(all.end(), output[i].begin(), output[i].end());
    }
    return all;
  }
};

struct Shape {
  std::size_t inputs;
  std::size_t outputs;
};

Shape shape_of(const BuildSpec& spec) {
  const auto n = static_cast<std::size_t>(spec.size);
  const bool root = spec.rank == spec.root;
  switch (spec.collective) {
    case Collective::kReduceScatter: return {n, 1};
    case Collective::kAllGather: return {1, n};
    case Collective::kAllToAll: return {n, n};
    case Collective::kReduce: return {1, root ? 1U : 0U};
    case Collective::kGather: return {1, root ? n : 0U};
    case Collective::kScatter: return {root ? n : 0U, 1};
    case Collective::kBarrier: return {0, 0};
    default: return {1, 1};
  }
}

// Only calls whose input and output have one shape may share a buffer.
bool can_be_in_place(const BuildSpec& spec) {
  return spec.collective == Collective::kAllReduce || spec.collective == Collective::kBroadcast ||
         (spec.collective == Collective::kReduce && spec.rank == spec.root);
}

Buffers make_buffers(const BuildSpec& spec, std::size_t count, bool in_place) {
  Buffers b;
  const Shape shape = shape_of(spec);
  b.input.assign(shape.inputs, std::vector<float>(count));
  b.output.assign(shape.outputs, std::vector<float>(count, -1.0F));
  std::uint32_t state = 12345U + static_cast<std::uint32_t>(spec.rank.value) * 977U;
  for (auto& block : b.input) {
    for (float& x : block) {
      state = state * 1664525U + 1013904223U;
      // Values whose sums round, so that the order of additions shows.
      x = static_cast<float>(state >> 8) * 1e-5F;
    }
  }
  b.in_place = in_place && can_be_in_place(spec);
  if (spec.collective == Collective::kBroadcast && spec.rank == spec.root) b.in_place = true;
  return b;
}

struct Case {
  const AlgorithmRow& row;
  int size;
  Rank root;
  std::size_t count;
  bool in_place;
  ReduceOp op = ReduceOp::kSum;
  const topology::Fabric* fabric = nullptr;

  BuildSpec spec(int rank) const { return {row.collective, {rank}, size, root, fabric}; }
};

std::vector<std::vector<float>> run_on_reference(const Case& c) {
  std::vector<Schedule> schedules;
  std::vector<Buffers> buffers;
  std::vector<ReferenceRank> ranks;
  for (int r = 0; r < c.size; ++r) {
    const BuildSpec spec = c.spec(r);
    schedules.push_back(c.row.build(spec));
    buffers.push_back(make_buffers(spec, c.count, c.in_place));
  }
  for (Buffers& b : buffers) ranks.push_back({b.in(), b.out()});
  REQUIRE(run_reference(schedules, ranks, DType::kF32, c.op).is_ok());
  std::vector<std::vector<float>> results;
  for (const Buffers& b : buffers) results.push_back(b.result());
  return results;
}

std::vector<std::vector<float>> run_on_links(World& world, const Case& c, std::uint32_t op) {
  std::vector<Buffers> buffers;
  std::vector<std::unique_ptr<Run>> runs;
  BufferPool pool;
  for (int r = 0; r < c.size; ++r) {
    const BuildSpec spec = c.spec(r);
    buffers.push_back(make_buffers(spec, c.count, c.in_place));
  }
  for (int r = 0; r < c.size; ++r) {
    const Schedule schedule = c.row.build(c.spec(r));
    Buffers& b = buffers[static_cast<std::size_t>(r)];
    const Layout layout = make_layout(schedule, b.in(), b.out(), sizeof(float));
    const Arithmetic arithmetic{DType::kF32, c.op, static_cast<std::uint32_t>(c.size)};
    runs.push_back(std::make_unique<Run>(lower(schedule, layout, arithmetic, pool),
                                         RunKey{{1}, {0}, op, 0, 0},
                                         world.links[static_cast<std::size_t>(r)]));
  }
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
  REQUIRE(std::all_of(runs.begin(), runs.end(), finished));
  std::vector<std::vector<float>> results;
  for (const Buffers& b : buffers) results.push_back(b.result());
  return results;
}

void compare(World& world, const Case& c, std::uint32_t op) {
  CAPTURE(c.row.algorithm);
  CAPTURE(collective_name(c.row.collective));
  CAPTURE(c.size);
  CAPTURE(c.root.value);
  CAPTURE(c.count);
  CAPTURE(c.in_place);
  const auto expected = run_on_reference(c);
  const auto got = run_on_links(world, c, op);
  for (std::size_t r = 0; r < expected.size(); ++r) {
    CAPTURE(r);
    REQUIRE(expected[r].size() == got[r].size());
    const std::size_t bytes = expected[r].size() * sizeof(float);
    CHECK((bytes == 0 || std::memcmp(expected[r].data(), got[r].data(), bytes) == 0));
  }
  for (const auto& pair : world.pairs) {
    CHECK(pair.a->session().idle());
    CHECK(pair.b->session().idle());
  }
}

TEST_CASE("every algorithm over every transport gives the reference's bits") {
  for (const TransportRow& transport : testing::transports()) {
    CAPTURE(transport.name);
    // All numbers of ranks are the verifier's.
    for (const int n : {1, 2, 3, 4, 5, 8}) {
      if (holdfast::testing::kSanitized && (n == 4 || n == 8)) continue;
      World world(transport, n);
      std::uint32_t op = 0;
      for (const AlgorithmRow& row : catalogue()) {
        for (const std::size_t count : {0U, 1U, 5U, 17U, 1023U, 40'001U}) {
          const Rank root{static_cast<int>(count) % n};
          compare(world, {row, n, root, count, (count % 2) == 1}, op++);
          compare(world, {row, n, root, count, (count % 2) == 0}, op++);
        }
      }
    }
  }
}

TEST_CASE("chunks larger than the windows stream without deadlock") {
  for (const TransportRow& transport : testing::transports()) {
    CAPTURE(transport.name);
    for (const int n : {2, 3, 5}) {
      if (holdfast::testing::kSanitized && n != 3) continue;
      World world(transport, n);
      std::uint32_t op = 0;
      for (const AlgorithmRow& row : catalogue()) {
        // These forward nothing: no window is ever in their way.
        if (row.algorithm == "flat" || row.algorithm == "pairwise") continue;
        const bool cuts = row.collective == Collective::kAllReduce ||
                          row.collective == Collective::kReduce ||
                          row.collective == Collective::kBroadcast;
        // A chunk that windows do not hold: of a block that is cut, or each block one.
        const std::size_t chunk = 600'007;
        compare(world, {row, n, {n - 1}, cuts ? chunk * static_cast<std::size_t>(n) : chunk, true},
                op++);
      }
    }
  }
}

TEST_CASE("algorithms of two levels give the reference's bits on fabrics of several shapes") {
  const topology::Fabric shapes[]{
      holdfast::testing::on_hosts({0, 0, 1, 1}), holdfast::testing::on_hosts({0, 1, 0, 1}),
      holdfast::testing::on_hosts({0, 1, 1, 1}), holdfast::testing::on_hosts({0, 0, 1, 2, 2, 1, 1}),
      holdfast::testing::on_sites({{0, 0}, {1, 0}, {0, 0}, {1, 1}, {1, 1}})};
  for (const TransportRow& transport : testing::transports()) {
    CAPTURE(transport.name);
    for (const topology::Fabric& fabric : shapes) {
      const int n = fabric.size();
      World world(transport, n);
      std::uint32_t op = 0;
      for (const AlgorithmRow& row : catalogue()) {
        if (row.level_cost == nullptr) continue;
        for (const std::size_t count : {0U, 5U, 1023U, 40'001U}) {
          const Rank root{static_cast<int>(count) % n};
          compare(world, {row, n, root, count, count % 2 == 1, ReduceOp::kSum, &fabric}, op++);
        }
      }
    }
  }
}

TEST_CASE("averages divide once, by the number of ranks") {
  for (const AlgorithmRow& row : catalogue()) {
    if (row.collective != Collective::kAllReduce && row.collective != Collective::kReduceScatter) {
      continue;
    }
    World world(testing::transports()[0], 3);
    compare(world, {row, 3, {0}, 1000, false, ReduceOp::kAvg}, 0);
  }
}

// Advances all ranks but `late` (-1: all) until nothing moves any more.
void advance_but(World& world, std::vector<std::unique_ptr<Run>>& runs, int late) {
  for (int idle = 0; idle < 3;) {
    bool moved = world.pump();
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (static_cast<int>(r) == late) continue;
      moved = moved || runs[r]->touched();
      runs[r]->advance();
    }
    idle = moved ? 0 : idle + 1;
  }
}

TEST_CASE("nobody leaves a barrier before the last rank has entered it") {
  for (const TransportRow& transport : testing::transports()) {
    CAPTURE(transport.name);
    for (int n = 2; n <= 9; ++n) {
      World world(transport, n);
      for (int late = 0; late < n; ++late) {
        BufferPool pool;
        std::vector<std::unique_ptr<Run>> runs;
        for (int r = 0; r < n; ++r) {
          const Schedule schedule =
              find_algorithm(Collective::kBarrier, "")->build({Collective::kBarrier, {r}, n, {}});
          const Layout layout = make_layout(schedule, {}, {}, 1);
          const RunKey key{{1}, {0}, static_cast<std::uint32_t>(late), 0, 0};
          runs.push_back(std::make_unique<Run>(lower(schedule, layout, {DType::kU8}, pool), key,
                                               world.links[static_cast<std::size_t>(r)]));
        }
        advance_but(world, runs, late);
        for (int r = 0; r < n; ++r) {
          CAPTURE(n);
          CAPTURE(late);
          CAPTURE(r);
          CHECK_FALSE(runs[static_cast<std::size_t>(r)]->finished());
        }
        advance_but(world, runs, -1);
        for (const auto& run : runs) CHECK(run->finished());
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::comm
