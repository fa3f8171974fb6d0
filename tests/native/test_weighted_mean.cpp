// Weighted averages as callers have them, over shared memory and sockets: against a plain
// computation in the order of ranks, with codecs and residuals, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "comm/reduce/weighing.h"
#include "worlds.h"

namespace holdfast::comm {
namespace {

using holdfast::testing::block;
using holdfast::testing::expect_no_errors;
using holdfast::testing::Member;
using holdfast::testing::run_world;
using Floats = std::vector<float>;
using std::chrono::seconds;

constexpr int kRanks = 3;

Floats given(int rank, std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(rank) * 101) % 997) / 7 - 50;
  }
  return values;
}

// In the order of ranks.
Floats average(const std::vector<double>& weights, std::size_t count, std::size_t first = 0,
               std::size_t all = 0) {
  const WeightScales scales(weights);
  Floats sum;
  for (int r = 0; r < static_cast<int>(weights.size()); ++r) {
    Floats part = given(r, all == 0 ? count : all);
    part = Floats(part.begin() + static_cast<std::ptrdiff_t>(first),
                  part.begin() + static_cast<std::ptrdiff_t>(first + count));
    scale_kernel(DType::kF32)(part.data(), part.data(), count, scales.of(r));
    if (r == 0) sum = part;
    for (std::size_t i = 0; r > 0 && i < count; ++i) sum[i] += part[i];
  }
  if (scales.weighing_of(0).divides()) {
    share_kernel(DType::kF32)(sum.data(), count, scales.total());
  }
  return sum;
}

OpRequest weighed(Floats& input, Floats& output, double weight) {
  OpRequest request;
  request.collective = Collective::kAllReduce;
  request.op = ReduceOp::kAvg;
  request.weight = weight;
  request.input = {block(input)};
  request.output = {block(output)};
  return request;
}

std::string run(Communicator& group, OpRequest request) {
  auto ran = group.run(std::move(request));
  if (!ran.is_ok()) return ran.status().message();
  const auto& work = ran.value().work;
  const Status status = work ? work->wait(seconds(30)) : Status::ok();
  return status.is_ok() ? "" : status.message();
}

std::string differs(const Floats& got, const Floats& right, double most, const std::string& what) {
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (std::abs(static_cast<double>(got[i]) - static_cast<double>(right[i])) <= most) continue;
    return what + ", element " + std::to_string(i) + ": " + std::to_string(got[i]) + ", not " +
           std::to_string(right[i]);
  }
  return "";
}

// Small ops, ops in slices, and messages; in place and not. In the order of ranks every way gives
// the same bits; others may round otherwise.
TEST_CASE("a weighted average is that of its inputs, by every way") {
  const std::vector<std::vector<double>> cases{
      {1, 2, 3}, {0, 0.5, 1e9}, {32, 32, 32}, {0, 0, 0}, {0, 0, 5}};
  for (const std::string transport : {"shm", "tcp"}) {
    expect_no_errors(run_world(kRanks, transport, [&](int rank, Member& m) -> std::string {
      for (const std::size_t count : {0UL, 1UL, 300UL, 20'000UL, 700'001UL}) {
        for (const auto& weights : cases) {
          const double own = weights[static_cast<std::size_t>(rank)];
          for (const bool ordered : {false, true}) {
            Floats values = given(rank, count);
            if (own == 0 && count > 0) values[0] = std::numeric_limits<float>::quiet_NaN();
            const Floats before = values;
            Floats out(count, -1);
            const bool in_place = count % 2 == 1;
            OpRequest request = weighed(values, in_place ? values : out, own);
            if (ordered) request.order = FoldOrder::kRanks;
            if (auto error = run(*m.group, request); !error.empty()) return error;
            const std::string what = transport + " " + std::to_string(count);
            const Floats right = average(weights, count);
            auto error = differs(in_place ? values : out, right, ordered ? 0 : 2e-5, what);
            if (!error.empty()) return error;
            const bool kept =
                in_place || count == 0 || std::memcmp(values.data(), before.data(), count * 4) == 0;
            if (!kept) return "an input has changed";
          }
        }
      }
      return "";
    }));
  }
}

TEST_CASE("equal weights give the bits of a plain average") {
  for (const std::string transport : {"shm", "tcp"}) {
    expect_no_errors(run_world(kRanks, transport, [&](int rank, Member& m) -> std::string {
      for (const std::size_t count : {5UL, 300UL, 100'000UL}) {
        Floats weighted = given(rank, count);
        Floats plain = weighted;
        if (auto error = run(*m.group, weighed(weighted, weighted, 37.5)); !error.empty())
          return error;
        OpRequest request = weighed(plain, plain, 0);
        request.weight.reset();
        if (auto error = run(*m.group, request); !error.empty()) return error;
        if (weighted != plain) return transport + ": other bits";
      }
      return "";
    }));
  }
}

TEST_CASE("blocks of a reduce_scatter are averages by weights") {
  const std::vector<double> weights{2, 0, 7};
  for (const std::string transport : {"shm", "tcp"}) {
    expect_no_errors(run_world(kRanks, transport, [&](int rank, Member& m) -> std::string {
      for (const std::size_t count : {1UL, 100UL, 50'000UL}) {
        Floats values = given(rank, kRanks * count);
        Floats out(count, -1);
        OpRequest request = weighed(values, out, weights[static_cast<std::size_t>(rank)]);
        request.collective = Collective::kReduceScatter;
        request.input.clear();
        for (std::size_t r = 0; r < kRanks; ++r) {
          request.input.push_back({reinterpret_cast<std::byte*>(values.data() + r * count), count});
        }
        if (auto error = run(*m.group, request); !error.empty()) return error;
        const Floats right =
            average(weights, count, static_cast<std::size_t>(rank) * count, kRanks * count);
        if (auto error = differs(out, right, 2e-5, transport); !error.empty()) return error;
      }
      return "";
    }));
  }
}

// Weights stay as they are from op to op: what frames lose comes in later, and the mean of many
// results is the weighted mean of the inputs.
TEST_CASE("with a codec and a residual the mean of many results is the weighted average") {
  const std::vector<double> weights{1, 4, 2};
  constexpr int kOps = 40;
  for (const std::string codec : {"int8", "int4"}) {
    expect_no_errors(run_world(kRanks, "tcp", [&](int rank, Member& m) -> std::string {
      const std::size_t count = 3000;
      Floats owed(count);
      std::vector<double> sums(count);
      for (int op = 0; op < kOps; ++op) {
        Floats values = given(rank, count);
        OpRequest request = weighed(values, values, weights[static_cast<std::size_t>(rank)]);
        request.codec = std::make_shared<compress::Codec>(compress::Codec::parse(codec).value());
        request.residual = {owed.data()};
        if (auto error = run(*m.group, request); !error.empty()) return error;
        for (std::size_t i = 0; i < count; ++i) sums[i] += static_cast<double>(values[i]);
      }
      Floats means(count);
      for (std::size_t i = 0; i < count; ++i) means[i] = static_cast<float>(sums[i] / kOps);
      return differs(means, average(weights, count), codec == "int8" ? 0.1 : 1.5, codec);
    }));
  }
}

TEST_CASE("a rank without weight keeps its residual, and its data counts nothing in frames") {
  const std::vector<double> weights{3, 0, 1};
  for (const std::string codec : {"int8", "bf16", "zstd"}) {
    expect_no_errors(run_world(kRanks, "tcp", [&](int rank, Member& m) -> std::string {
      const std::size_t count = 2000;
      Floats values = given(rank, count);
      if (rank == 1) std::fill(values.begin(), values.end(), 1e30F);
      Floats owed(count, 0.25F);
      OpRequest request = weighed(values, values, weights[static_cast<std::size_t>(rank)]);
      request.codec = std::make_shared<compress::Codec>(compress::Codec::parse(codec).value());
      if (request.codec->spec().takes_residual) request.residual = {owed.data()};
      if (auto error = run(*m.group, request); !error.empty()) return error;
      if (rank == 1 && owed != Floats(count, 0.25F)) return "the residual has changed";
      const bool lossless = request.codec->spec().lossless;
      Floats right = average(weights, count);
      // What was owed comes in, of those who have a weight.
      for (float& x : right) x += request.residual.empty() ? 0.0F : 0.25F;
      return differs(values, right, lossless ? 2e-5 : 2, codec);
    }));
  }
}

TEST_CASE("a weight that some ranks give and others do not is reported on every rank") {
  for (const std::string transport : {"shm", "tcp"}) {
    for (const std::size_t count : {2000UL, 300'000UL}) {
      expect_no_errors(run_world(kRanks, transport, [&](int rank, Member& m) -> std::string {
        Floats values = given(rank, count);
        OpRequest request = weighed(values, values, 2);
        if (rank == 1) request.weight.reset();
        const std::string error = run(*m.group, request);
        const std::string number = std::to_string(count);
        for (const std::string& part :
             {"ranks 0, 2 called all_reduce #0 (f32, " + number + " elements, avg by weights)",
              "rank 1 called all_reduce #0 (f32, " + number + " elements, avg)"}) {
          if (error.find(part) == std::string::npos) return "unexpected: " + error;
        }
        return "";
      }));
    }
  }
}

TEST_CASE("weights that are none, and calls that have none, are refused") {
  expect_no_errors(run_world(1, "shm", [&](int, Member& m) -> std::string {
    Floats values(4, 1);
    const auto refused = [&](OpRequest request, Code code, const std::string& part) {
      const auto ran = m.group->run(std::move(request));
      const std::string message = ran.is_ok() ? "accepted" : ran.status().message();
      if (ran.is_ok() || ran.status().code() != code) return "unexpected: " + message;
      return message.find(part) == std::string::npos ? message : std::string();
    };
    for (const auto& [weight, text] : std::vector<std::pair<double, std::string>>{
             {-1, "weight -1"},
             {std::numeric_limits<double>::quiet_NaN(), "nan"},
             {std::numeric_limits<double>::infinity(), "weight inf"}}) {
      const auto error = refused(weighed(values, values, weight), Code::kConfigError, text);
      if (!error.empty()) return error;
    }
    OpRequest sum = weighed(values, values, 1);
    sum.op = ReduceOp::kSum;
    if (auto error = refused(sum, Code::kConfigError, "with sum"); !error.empty()) return error;
    OpRequest whole = weighed(values, values, 1);
    whole.dtype = DType::kI32;
    if (auto error = refused(whole, Code::kUnsupported, "f32"); !error.empty()) return error;
    // Alone.
    if (auto error = run(*m.group, weighed(values, values, 5)); !error.empty()) return error;
    if (values != Floats(4, 1)) return "alone, a weight changed something";
    if (auto error = run(*m.group, weighed(values, values, 0)); !error.empty()) return error;
    return values == Floats(4, 0) ? "" : "without weight there is something";
  }));
}

}  // namespace
}  // namespace holdfast::comm
