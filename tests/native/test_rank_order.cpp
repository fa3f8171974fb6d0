// Reductions in the order of ranks: every algorithm that says so groups its operands as ((0 op 1)
// op 2) op ..., and every way that such a call takes gives the same bits.
#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "comm/algorithms/catalogue.h"
#include "comm/plan/route.h"
#include "comm/schedule/reference.h"
#include "fabrics.h"
#include "sanitized.h"
#include "worlds.h"

namespace holdfast::comm {
namespace {

using holdfast::testing::expect_no_errors;
using holdfast::testing::Member;
using holdfast::testing::Options;
using holdfast::testing::run_world;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  return std::rotl(a * 0x9e37'79b9'7f4a'7c15ULL + 1, 17) ^ (b * 0xc2b2'ae3d'27d4'eb4fULL);
}

// Neither commutative nor associative: order and grouping of the operands show in the result.
UserOp mixer() {
  UserOp user;
  user.element_bytes = sizeof(std::uint64_t);
  user.apply = [](const void* in, void* inout, std::uint64_t count) {
    const auto* a = static_cast<const std::uint64_t*>(in);
    auto* b = static_cast<std::uint64_t*>(inout);
    for (std::uint64_t i = 0; i < count; ++i) b[i] = mixed(a[i], b[i]);
  };
  return user;
}

using Words = std::vector<std::uint64_t>;

std::uint64_t given(int rank, std::size_t block, std::size_t i) {
  return mixed(static_cast<std::uint64_t>(rank) + 1, block * 1000 + i);
}

// What the first `ranks` ranks have, folded from the left.
Words folded(int ranks, std::size_t block, std::size_t count) {
  Words sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    sum[i] = given(0, block, i);
    for (int r = 1; r < ranks; ++r) sum[i] = mixed(sum[i], given(r, block, i));
  }
  return sum;
}

// The results of all ranks that have one, and those of the left fold.
struct Results {
  std::vector<Words> got;
  std::vector<Words> want;
};

Results run_row(const AlgorithmRow& row, int size, int root, std::size_t count,
                const topology::Fabric* fabric = nullptr) {
  std::vector<Schedule> schedules;
  std::vector<std::vector<Words>> input(static_cast<std::size_t>(size));
  std::vector<Words> output(static_cast<std::size_t>(size), Words(count));
  std::vector<ReferenceRank> ranks;
  const auto block = [](Words& of) {
    return Block{reinterpret_cast<std::byte*>(of.data()), of.size()};
  };
  for (int r = 0; r < size; ++r) {
    const auto i = static_cast<std::size_t>(r);
    schedules.push_back(row.build({row.collective, {r}, size, {root}, fabric}));
    const std::size_t blocks = has_input_blocks(row.collective) ? input.size() : 1;
    ranks.emplace_back();
    for (std::size_t b = 0; b < blocks; ++b) {
      Words words(count);
      for (std::size_t k = 0; k < count; ++k) words[k] = given(r, b, k);
      input[i].push_back(words);
    }
    for (Words& words : input[i]) ranks[i].input.push_back(block(words));
    if (has_result(row.collective, r == root)) ranks[i].output = {block(output[i])};
  }
  const UserOp user = mixer();
  REQUIRE(run_reference(schedules, ranks, DType::kU8, ReduceOp::kUser, &user).is_ok());
  Results results;
  for (int r = 0; r < size; ++r) {
    const bool first = row.collective == Collective::kExscan && r == 0;
    if (!has_result(row.collective, r == root) || first) continue;
    const int operands = row.collective == Collective::kScan     ? r + 1
                         : row.collective == Collective::kExscan ? r
                                                                 : size;
    const auto i = static_cast<std::size_t>(r);
    results.got.push_back(output[i]);
    results.want.push_back(folded(operands, has_input_blocks(row.collective) ? i : 0, count));
  }
  return results;
}

OpRequest sized(Collective collective, int size, std::uint64_t count, FoldOrder order) {
  OpRequest request;
  request.collective = collective;
  request.order = order;
  const std::size_t inputs = has_input_blocks(collective) ? static_cast<std::size_t>(size) : 1;
  for (std::size_t i = 0; i < inputs; ++i) request.input.push_back({nullptr, count});
  request.output = {{nullptr, count}};
  return request;
}

TEST_CASE("rows that say so fold from the left, in the order of ranks") {
  int rows = 0;
  for (const AlgorithmRow& row : catalogue()) {
    if (!reduces(row.collective) || !row.keeps_order()) continue;
    ++rows;
    CAPTURE(row.algorithm);
    CAPTURE(collective_name(row.collective));
    for (int size = 1; size <= 17; ++size) {
      for (const std::size_t count : {0UL, 1UL, 5UL, 40UL}) {
        const Results results = run_row(row, size, size / 2, count);
        CHECK(results.got == results.want);
      }
    }
  }
  CHECK(rows == 11);
}

TEST_CASE("levels fold in the order of ranks, however these are numbered") {
  const AlgorithmRow& row = *find_algorithm(Collective::kAllReduce, "ordered_levels");
  for (const topology::Fabric& fabric : holdfast::testing::fabrics()) {
    CAPTURE(fabric.text());
    for (const std::size_t count : {1UL, 40UL}) {
      const Results results = run_row(row, fabric.size(), 0, count, &fabric);
      CHECK(results.got == results.want);
    }
  }
}

TEST_CASE("large ordered sums go by levels where there are any, and small ones flat") {
  const auto chosen = [](const std::vector<int>& hosts, std::uint64_t count) {
    const topology::Fabric fabric = holdfast::testing::on_hosts(hosts);
    const ViewFacts view{fabric.size(), &fabric};
    const auto request = sized(Collective::kAllReduce, fabric.size(), count, FoldOrder::kRanks);
    return route_in_view(request, view).algorithm->algorithm;
  };
  CHECK(chosen({0, 0, 0, 0, 1, 1, 1, 1}, 1U << 22) == "ordered_levels");
  CHECK(chosen({0, 1, 0, 1, 0, 1, 0, 1}, 1U << 22) == "ordered_levels");
  CHECK(chosen({0, 0, 0, 0}, 1U << 22) == "direct_fold");
  CHECK(chosen({0, 1, 2, 3}, 1U << 22) == "direct_fold");
  CHECK(chosen({0, 0, 1, 1}, 2) == "flat");
}

TEST_CASE("rows that do not say so would be found") {
  const AlgorithmRow& ring = *find_algorithm(Collective::kAllReduce, "ring");
  CHECK_FALSE(ring.keeps_order());
  const Results results = run_row(ring, 5, 0, 40);
  CHECK(results.got != results.want);
}

TEST_CASE("whatever the fabric, an ordered call takes a row that keeps the order") {
  for (const topology::Fabric& fabric : holdfast::testing::fabrics()) {
    CAPTURE(fabric.text());
    const ViewFacts view{fabric.size(), &fabric};
    for (const Collective c :
         {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter,
          Collective::kScan, Collective::kExscan}) {
      for (const std::uint64_t count : {1ULL, 10'000ULL, 1ULL << 22, 1ULL << 28}) {
        LastAnswer last;
        const auto ordered = sized(c, fabric.size(), count, FoldOrder::kRanks);
        CHECK(route_in_view(ordered, view, false, &last).algorithm->keeps_order());
        // The other order is not answered with this one's row.
        const auto any = sized(c, fabric.size(), count, FoldOrder::kAny);
        const Plan plan = route_in_view(any, view, false, &last);
        CHECK(plan.algorithm == route_in_view(any, view).algorithm);
        CHECK((is_scan(c) || plan.algorithm->order != RankOrder::kOnly));
        CHECK(route_in_view(ordered, view, false, &last).algorithm->keeps_order());
      }
    }
  }
}

TEST_CASE("devices do not reduce what has an order, or what they have no kernel for") {
  DeviceFacts facts{.direct = true, .encoded = true};
  facts.place = {4, 1, true};
  facts.present = {4, 1};
  OpRequest request = sized(Collective::kAllReduce, 4, 1U << 20, FoldOrder::kAny);
  CHECK(route_on_device(request, facts).way == Way::kDirect);
  request.order = FoldOrder::kRanks;
  CHECK(route_on_device(request, facts).way == Way::kStaged);
  facts.direct = false;
  request.codec =
      std::make_shared<const compress::Codec>(compress::Codec::make("int8", {}).value());
  CHECK(route_on_device(request, facts).way == Way::kStaged);
  request.order = FoldOrder::kAny;
  CHECK(route_on_device(request, facts).way == Way::kEncoded);
  request.codec = nullptr;
  facts.direct = true;
  request.op = ReduceOp::kLand;
  CHECK(route_on_device(request, facts).way == Way::kStaged);
  request.op = ReduceOp::kSum;
  request.dtype = DType::kLongDouble;
  CHECK(route_on_device(request, facts).way == Way::kStaged);
}

TEST_CASE("where order cannot show, a call that asks for it goes as any other") {
  OpRequest request;
  request.collective = Collective::kAllReduce;
  request.order = FoldOrder::kRanks;
  CHECK(request.keeps_order());
  for (const DType dtype : {DType::kI32, DType::kU8, DType::kBool, DType::kU64}) {
    request.dtype = dtype;
    CHECK_FALSE(request.keeps_order());
  }
  request.dtype = DType::kF64;
  request.op = ReduceOp::kLand;
  CHECK_FALSE(request.keeps_order());
  // Of 0 and -0 either may be the lesser.
  request.op = ReduceOp::kMin;
  CHECK(request.keeps_order());
  request.collective = Collective::kAllGather;
  CHECK_FALSE(request.keeps_order());
}

TEST_CASE("ranks that ask for different orders are told so") {
  expect_no_errors(run_world(2, "shm", [](int rank, Member& member) -> std::string {
    std::vector<float> data(64, 1.0F);
    OpRequest request = holdfast::testing::all_reduce(data);
    request.order = rank == 0 ? FoldOrder::kRanks : FoldOrder::kAny;
    auto started = member.group->start(std::move(request));
    if (!started.is_ok()) return started.status().message();
    const Status status = started.value()->wait(std::chrono::seconds(30));
    return status.code() == Code::kProtocolError ? "" : "it ended with " + status.message();
  }));
}

// Sums of these depend on every grouping: large ones cancel, small ones are lost or not.
float hostile(int rank, std::size_t i) {
  static constexpr float kValues[]{1e30F,  1.0F, -1e30F,         3e-39F, 16'777'216.0F, -1.0F,
                                   1e-30F, 0.1F, -16'777'215.0F, 7e22F,  -7e22F,        -0.0F};
  const std::uint64_t pick = mixed(static_cast<std::uint64_t>(rank) + 7, i / 3);
  return kValues[pick % std::size(kValues)] * (i % 3 == 0 ? 1.0F : 1.0F + 1e-6F * float(i % 7));
}

struct WayCase {
  const char* name;
  const char* transport;
  bool protect;
  int hosts;              // ranks take turns among so many
  const char* algorithm;  // empty: none is named
};

std::vector<float> left_fold(Collective c, int rank, int size, std::size_t count) {
  const int operands = c == Collective::kScan ? rank + 1 : c == Collective::kExscan ? rank : size;
  const std::size_t at = c == Collective::kReduceScatter ? count * std::size_t(rank) : 0;
  std::vector<float> sum(count, -5.0F);
  for (std::size_t i = 0; i < count && operands > 0; ++i) {
    volatile float x = hostile(0, at + i);  // each step rounds to a float
    for (int r = 1; r < operands; ++r) x = x + hostile(r, at + i);
    sum[i] = x;
  }
  return sum;
}

std::string run_one(Member& member, Collective c, std::size_t count, const WayCase& way) {
  const int rank = member.group->rank().value;
  const int size = member.group->size();
  const std::size_t blocks = has_input_blocks(c) ? static_cast<std::size_t>(size) : 1;
  std::vector<float> input(count * blocks);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = hostile(rank, i);
  std::vector<float> output(count, -5.0F);
  OpRequest request;
  request.collective = c;
  request.order = FoldOrder::kRanks;
  request.root = {size - 1 - size / 3};
  if (find_algorithm(c, way.algorithm) != nullptr) request.algorithm = way.algorithm;
  for (std::size_t b = 0; b < blocks; ++b) {
    request.input.push_back({reinterpret_cast<std::byte*>(input.data() + b * count), count});
  }
  const bool has = has_result(c, request.root.value == rank);
  if (has) request.output = {holdfast::testing::block(output)};
  auto ran = member.group->run(std::move(request));
  if (!ran.is_ok()) return ran.status().message();
  if (ran.value().work) {
    const Status status = ran.value().work->wait(std::chrono::seconds(60));
    if (!status.is_ok()) return status.message();
  }
  if (!has) return "";
  const std::vector<float> want = left_fold(c, rank, size, count);
  if (count == 0 || std::memcmp(want.data(), output.data(), count * sizeof(float)) == 0) return "";
  return std::string(way.name) + ": other bits, " + std::string(collective_name(c)) + " of " +
         std::to_string(count) + " on " + std::to_string(size);
}

TEST_CASE("float sums have the bits of the left fold on every way, at every size") {
  static constexpr WayCase kWays[]{
      {"flat and slices", "shm", true, 1, ""},
      {"flat and slices, unprotected", "shm", false, 1, ""},
      {"flat by messages", "shm", true, 1, "flat"},
      {"direct folds by messages", "shm", true, 1, "direct_fold"},
      {"chains by messages", "shm", true, 1, "chain"},
      {"chosen, by connections", "tcp", true, 1, ""},
      {"chosen, on two hosts", "tcp", false, 2, ""},
      {"by levels", "tcp", true, 2, "ordered_levels"},
  };
  for (const int size : {2, 3, 4, 5, 8}) {
    for (const WayCase& way : kWays) {
      if (holdfast::testing::kSanitized && size > 3) continue;
      std::atomic<int> entered{0};
      const auto adjust = [&](Options& options) {
        options.fault_tolerance = way.protect;
        if (way.hosts > 1) options.host_id = "host" + std::to_string(entered++ % way.hosts);
      };
      expect_no_errors(run_world(
          size, way.transport,
          [&](int, Member& member) -> std::string {
            for (const Collective c :
                 {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter,
                  Collective::kScan, Collective::kExscan}) {
              for (const std::size_t count : {0UL, 1UL, 3UL, 700UL, 30'011UL, 70'001UL}) {
                std::string wrong = run_one(member, c, count, way);
                if (!wrong.empty()) return wrong;
              }
            }
            return "";
          },
          adjust));
    }
  }
}

}  // namespace
}  // namespace holdfast::comm
