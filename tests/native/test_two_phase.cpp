// Compressed collectives: proven as any schedule, and run over every transport against a plain
// computation of what two phases must give.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec_data.h"
#include "comm/algorithms/algorithms.h"
#include "comm/algorithms/catalogue.h"
#include "comm/engine/run.h"
#include "comm/schedule/verifier.h"
#include "fabrics.h"
#include "link_world.h"

namespace holdfast::comm {
namespace {

using compress::Codec;
using compress::CodecOptions;
using testing::LinkWorld;
using testing::TransportRow;
using Floats = std::vector<float>;

std::vector<Schedule> build_all(Collective collective, int size, int root, int pieces) {
  std::vector<Schedule> schedules;
  for (int r = 0; r < size; ++r) {
    schedules.push_back(
        find_encoded(collective)->build({collective, {r}, size, {root}, nullptr, pieces}));
  }
  return schedules;
}

TEST_CASE("two phases are proven for 1 to 9 ranks and any number of pieces") {
  for (const AlgorithmRow& row : encoded_catalogue()) {
    if (row.algorithm != "two_phase") continue;
    CAPTURE(collective_name(row.collective));
    for (int n = 1; n <= 9; ++n) {
      for (const int pieces : {1, 2, 3, 7}) {
        for (int root = 0; root < (row.collective == Collective::kBroadcast ? n : 1); ++root) {
          CAPTURE(n);
          CAPTURE(pieces);
          const Status status = verify(build_all(row.collective, n, root, pieces));
          REQUIRE_MESSAGE(status.is_ok(), status.message());
        }
      }
    }
  }
}

TEST_CASE("two levels with a codec are proven for fabrics of all shapes") {
  const AlgorithmRow* row = find_encoded(Collective::kAllReduce, "two_level_coded");
  REQUIRE(row != nullptr);
  for (const topology::Fabric& fabric : holdfast::testing::fabrics()) {
    CAPTURE(fabric.text());
    const int level = fabric.wide_level().value_or(fabric.depth());
    for (const int pieces : {1, 2, 3, 7}) {
      CAPTURE(pieces);
      const int n = fabric.size();
      std::vector<Schedule> schedules;
      for (int r = 0; r < n; ++r) {
        schedules.push_back(row->build({row->collective, {r}, n, {}, &fabric, pieces}));
      }
      const Status status = verify(schedules);
      REQUIRE_MESSAGE(status.is_ok(), status.message());
      if (fabric.domains(level) == 1) continue;  // two phases
      for (const Schedule& s : schedules) {
        for (const Step& step : s.steps) {
          if (step.kind != StepKind::kSend) continue;
          const bool leaves = fabric.level_between(s.rank, step.peer) < level;
          CHECK((form_of(s, step.lhs) == Form::kFrame) == leaves);
        }
      }
    }
  }
}

void expect_refused(const std::vector<Schedule>& schedules, const std::string& reason) {
  const Status status = verify(schedules);
  CHECK(status.code() == Code::kProtocolError);
  CHECK_MESSAGE(status.message().find(reason) != std::string::npos, status.message());
}

TEST_CASE("frames that are taken for something else are refused") {
  auto s = build_all(Collective::kAllReduce, 3, 0, 2);
  for (ScratchChunk& chunk : s[1].scratch) chunk.form = Form::kPlain;
  CHECK_FALSE(verify(s).is_ok());
  s = build_all(Collective::kAllGather, 3, 0, 1);
  for (Step& step : s[0].steps) {
    if (step.kind == StepKind::kSend) step.lhs = Builder::input(0);
  }
  expect_refused(s, "another form");
  s = build_all(Collective::kAllReduce, 3, 0, 1);
  for (Step& step : s[2].steps) step.final = false;
  expect_refused(s, "final reduction");
}

TEST_CASE("what works on whole frames never streams") {
  for (const Schedule& s : build_all(Collective::kAllReduce, 4, 0, 3)) {
    for (const Step& step : s.steps) {
      for (const Dependency& d : step.deps) CHECK_FALSE(d.streamed);
    }
  }
}

Codec codec_of(const std::string& name, const CodecOptions& options = {}) {
  return std::move(Codec::make(name, options)).value();
}

Codec usual(const std::string& name) {
  return codec_of(name, compress::default_options(compress::find(name)->spec.id));
}

struct Case {
  Collective collective;
  int size;
  int root = 0;
  int pieces = 1;
  std::size_t count = 0;  // elements of a block
  ReduceOp op = ReduceOp::kSum;
  const topology::Fabric* fabric = nullptr;  // two levels; nullptr: two phases
};

struct RankMemory {
  std::vector<Floats> input;
  std::vector<Floats> output;
  std::vector<Floats> residual;  // by input block; empty: none
  std::vector<Floats> feedback;
};

std::vector<Block> blocks_of(std::vector<Floats>& of) {
  std::vector<Block> result;
  for (Floats& v : of) result.push_back({reinterpret_cast<std::byte*>(v.data()), v.size()});
  return result;
}

std::vector<RankMemory> memory_for(const Case& c, bool residual) {
  const auto n = static_cast<std::size_t>(c.size);
  const bool many_in =
      c.collective == Collective::kReduceScatter || c.collective == Collective::kAllToAll;
  const bool many_out =
      c.collective == Collective::kAllGather || c.collective == Collective::kAllToAll;
  std::vector<RankMemory> ranks(n);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t b = 0; b < (many_in ? n : 1); ++b) {
      ranks[r].input.push_back(compress::normals(c.count, 100 * r + b + 1));
      if (!residual) continue;
      ranks[r].residual.push_back(compress::normals(c.count, 9000 + 100 * r + b, 0.1F));
      ranks[r].feedback.emplace_back(c.count, -7.0F);
    }
    ranks[r].output.assign(many_out ? n : 1, Floats(c.count, -1.0F));
  }
  return ranks;
}

void run(LinkWorld& world, const Case& c, const Codec& codec, std::uint32_t number,
         std::vector<RankMemory>& ranks) {
  BufferPool pool;
  std::vector<std::unique_ptr<Run>> runs;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    RankMemory& memory = ranks[r];
    const BuildSpec spec{c.collective, {static_cast<int>(r)}, c.size, {c.root}, c.fabric, c.pieces};
    const auto* row =
        find_encoded(c.collective, c.fabric == nullptr ? "two_phase" : "two_level_coded");
    const Schedule schedule = row->build(spec);
    const Layout layout =
        make_layout(schedule, blocks_of(memory.input), blocks_of(memory.output), sizeof(float));
    Coding coding{codec, {5, number, 0}, {}, {}};
    for (Floats& v : memory.residual) coding.residual.push_back(v.data());
    for (Floats& v : memory.feedback) coding.feedback.push_back(v.data());
    const Arithmetic arithmetic{DType::kF32, c.op, static_cast<std::uint32_t>(c.size)};
    runs.push_back(std::make_unique<Run>(lower(schedule, layout, arithmetic, pool, coding),
                                         RunKey{{1}, {0}, number, 0, 0}, world.links[r]));
  }
  const auto finished = [](const auto& one) { return one->finished(); };
  for (int idle = 0; !std::all_of(runs.begin(), runs.end(), finished) && idle < 3;) {
    bool moved = world.pump();
    for (auto& one : runs) {
      moved = moved || one->touched();
      one->advance();
      REQUIRE_MESSAGE(!one->failed(), one->failure().message());
    }
    idle = moved ? 0 : idle + 1;
  }
  REQUIRE(std::all_of(runs.begin(), runs.end(), finished));
}

// What one encoding makes of a run of elements; `lost`: what the frame does not say.
Floats passed(const Codec& codec, const Floats& values, const compress::RoundingKey& key,
              Floats* residual) {
  std::vector<std::byte> frame(codec.encoded_bound(DType::kF32, values.size()));
  std::span<float> error;
  if (residual != nullptr) error = *residual;
  codec.encode({std::as_bytes(std::span(values)), DType::kF32, key, error}, frame);
  Floats out(values.size());
  REQUIRE(codec.decode(frame, DType::kF32, std::as_writable_bytes(std::span(out))).is_ok());
  return out;
}

Floats slice(const Floats& of, std::size_t begin, std::size_t count) {
  const auto at = of.begin() + static_cast<std::ptrdiff_t>(begin);
  return {at, at + static_cast<std::ptrdiff_t>(count)};
}

// All-reduce and reduce-scatter, chunk by chunk, from the definition; fills in feedback, too.
void reduce_plainly(const Case& c, const Codec& codec, std::uint32_t number,
                    std::vector<RankMemory>& ranks) {
  const bool scatters = c.collective == Collective::kReduceScatter;
  const Schedule shape = build_all(c.collective, 1, 0, c.pieces * (scatters ? 1 : c.size))[0];
  const Layout cuts = make_layout(shape, {{nullptr, c.count}}, {{nullptr, c.count}}, sizeof(float));
  const std::size_t blocks = ranks[0].input.size();
  for (std::size_t b = 0; b < blocks; ++b) {
    std::size_t at = 0;
    for (std::size_t k = 0; k < cuts.input.size(); at += cuts.input[k].count, ++k) {
      const std::size_t count = cuts.input[k].count;
      const std::uint64_t chunk = b * static_cast<std::size_t>(c.pieces) + k;
      Floats sum;
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        const compress::RoundingKey key{5, number, chunk | (r + 1) << 32};
        RankMemory& memory = ranks[r];
        Floats residual;
        if (!memory.residual.empty()) residual = slice(memory.residual[b], at, count);
        const Floats value = passed(codec, slice(memory.input[b], at, count), key,
                                    residual.empty() ? nullptr : &residual);
        std::copy(residual.begin(), residual.end(),
                  memory.feedback.empty() ? nullptr : &memory.feedback[b][at]);
        if (r == 0) sum.assign(count, 0);
        for (std::size_t i = 0; i < count; ++i) sum[i] = r == 0 ? value[i] : sum[i] + value[i];
      }
      if (c.op == ReduceOp::kAvg) {
        for (float& x : sum) x = x / static_cast<float>(c.size);
      }
      const Floats result = scatters ? sum : passed(codec, sum, {5, number, chunk}, nullptr);
      if (!scatters && !ranks[0].feedback.empty()) {
        // The owner owes what the sum's frame does not say, of all ranks together.
        const float times = c.op == ReduceOp::kAvg ? static_cast<float>(c.size) : 1.0F;
        float* owed = &ranks[k / static_cast<std::size_t>(c.pieces)].feedback[0][at];
        for (std::size_t i = 0; i < count; ++i) owed[i] -= times * (result[i] - sum[i]);
      }
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (scatters && r != b) continue;
        std::copy(result.begin(), result.end(), ranks[r].output[0].data() + at);
      }
    }
  }
}

void same_bits(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  CHECK((a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0));
}

void compare_reduction(LinkWorld& world, const Case& c, const Codec& codec, std::uint32_t number,
                       bool residual) {
  CAPTURE(collective_name(c.collective));
  CAPTURE(codec.text());
  CAPTURE(c.size);
  CAPTURE(c.count);
  CAPTURE(c.pieces);
  auto got = memory_for(c, residual);
  auto expected = got;
  run(world, c, codec, number, got);
  reduce_plainly(c, codec, number, expected);
  for (std::size_t r = 0; r < got.size(); ++r) {
    CAPTURE(r);
    same_bits(got[r].output[0], expected[r].output[0]);
    for (std::size_t b = 0; b < got[r].feedback.size(); ++b) {
      same_bits(got[r].feedback[b], expected[r].feedback[b]);
    }
    if (residual) {
      same_bits(got[r].residual[0], expected[r].residual[0]);
    }
  }
}

std::vector<Codec> codecs() {
  CodecOptions stochastic;
  stochastic.rounding = compress::Rounding::kStochastic;
  return {codec_of("bf16"), codec_of("fp16"),   codec_of("fp8_e4m3"), codec_of("int8"),
          codec_of("int4"), codec_of("onebit"), codec_of("topk"),     codec_of("int8", stochastic)};
}

TEST_CASE("two phases give the bits of the definition over every transport") {
  for (const TransportRow& transport : testing::transports()) {
    CAPTURE(transport.name);
    for (const int n : {1, 2, 3, 4, 7}) {
      LinkWorld world(transport, n);
      std::uint32_t number = 0;
      for (const Codec& codec : codecs()) {
        for (const std::size_t count : {0U, 1U, 5U, 1000U, 20'011U}) {
          const int pieces = count > 1000 ? 3 : 1;
          const ReduceOp op = count % 2 == 0 ? ReduceOp::kSum : ReduceOp::kAvg;
          for (const Collective c : {Collective::kAllReduce, Collective::kReduceScatter}) {
            compare_reduction(world, {c, n, 0, pieces, count, op}, codec, number++,
                              count == 20'011);
          }
        }
      }
    }
  }
}

TEST_CASE("exchanges give every rank what one encoding makes of a block") {
  for (const TransportRow& transport : testing::transports()) {
    CAPTURE(transport.name);
    for (const int n : {1, 2, 3, 5}) {
      LinkWorld world(transport, n);
      const Codec codec = codec_of("int8");
      std::uint32_t number = 0;
      for (const Collective collective :
           {Collective::kAllGather, Collective::kAllToAll, Collective::kBroadcast}) {
        CAPTURE(collective_name(collective));
        CAPTURE(n);
        // Pieces of whole blocks of 128 elements, so that they can be compared in one.
        const bool cut_by_rank = collective == Collective::kBroadcast;
        const auto ranks_in = static_cast<std::size_t>(n);
        const std::size_t count = cut_by_rank ? 256 * 3 * ranks_in : 256 * 3;
        const Case c{collective, n, n - 1, 3, count, ReduceOp::kSum};
        auto ranks = memory_for(c, false);
        run(world, c, codec, number++, ranks);
        for (std::size_t r = 0; r < ranks_in; ++r) {
          for (std::size_t b = 0; b < ranks[r].output.size(); ++b) {
            const std::size_t from = cut_by_rank ? ranks_in - 1 : b;
            const Floats& source = ranks[from].input[collective == Collective::kAllToAll ? r : 0];
            const bool own = collective == Collective::kAllToAll && b == r;
            same_bits(ranks[r].output[b], own ? source : passed(codec, source, {}, nullptr));
          }
        }
      }
    }
  }
}

double greatest_error(const Codec& codec, int size, std::size_t count,
                      const topology::Fabric* fabric = nullptr) {
  LinkWorld world(testing::transports()[0], size);
  const Case c{Collective::kAllReduce, size, 0, 2, count, ReduceOp::kAvg, fabric};
  auto ranks = memory_for(c, false);
  run(world, c, codec, 0, ranks);
  for (const RankMemory& memory : ranks) same_bits(memory.output[0], ranks[0].output[0]);
  double most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    double mean = 0;
    for (const RankMemory& memory : ranks) mean += static_cast<double>(memory.input[0][i]) / size;
    most = std::max(most, std::abs(mean - static_cast<double>(ranks[0].output[0][i])));
  }
  return most;
}

TEST_CASE("the error of an average does not grow with the ranks") {
  constexpr std::size_t kCount = 8192;
  // Normal values lie within 5, scales of int8 within 5 / 127: half a step per encoding, two of
  // them.
  const double bound = 2 * 0.5 * 5.0 / 127;
  const double few = greatest_error(codec_of("int8"), 2, kCount);
  const double many = greatest_error(codec_of("int8"), 9, kCount);
  CHECK(few < bound);
  CHECK(many < few);
}

TEST_CASE("two levels lose as little as two phases among as many as there are hosts") {
  constexpr std::size_t kCount = 8192;
  // A host's sum of three normal values is sqrt(3) times as large, their average that much smaller.
  const double bound = 2 * 0.5 * 5.0 / 127;
  const auto error = [](const std::vector<int>& hosts, std::size_t count) {
    const topology::Fabric fabric = holdfast::testing::on_hosts(hosts);
    return greatest_error(codec_of("int8"), fabric.size(), count, &fabric);
  };
  CHECK(error({0, 0, 0, 1, 1, 1}, kCount) < bound);
  CHECK(error({0, 1, 0, 1, 1}, kCount) < bound);
  CHECK(error({0, 0, 1}, 7) < bound);
  // What no codec can round: sums of whole numbers that bf16 has.
  const topology::Fabric fabric = holdfast::testing::on_hosts({0, 0, 1, 2, 1});
  for (const TransportRow& transport : testing::transports()) {
    LinkWorld world(transport, 5);
    const Case c{Collective::kAllReduce, 5, 0, 3, 20'011, ReduceOp::kSum, &fabric};
    auto ranks = memory_for(c, false);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      std::fill(ranks[r].input[0].begin(), ranks[r].input[0].end(), static_cast<float>(r + 1));
    }
    run(world, c, codec_of("bf16"), 0, ranks);
    for (const RankMemory& memory : ranks) {
      CHECK(std::all_of(memory.output[0].begin(), memory.output[0].end(),
                        [](float x) { return x == 15; }));
    }
  }
}

// Bytes that rank 0's links have carried in, for one op.
double received(const Codec& codec, int size, std::size_t count) {
  LinkWorld world(testing::transports()[2], size);
  const int pieces = two_phase_pieces(count / static_cast<std::size_t>(size));
  const Case c{Collective::kAllReduce, size, 0, pieces, count, ReduceOp::kSum};
  auto ranks = memory_for(c, false);
  run(world, c, codec, 0, ranks);
  double bytes = 0;
  for (const Link* link : world.links[0]) {
    if (link != nullptr) bytes += static_cast<double>(link->received());
  }
  return bytes;
}

TEST_CASE("bytes on the wire, counted at the sockets, shrink as the codecs say") {
  constexpr std::size_t kCount = 2U << 20;  // in pieces as large as those of 64 MiB
  constexpr int kRanks = 4;
  // What a ring moves, or two phases without a codec.
  const double plain = 2.0 * (kRanks - 1) / kRanks * kCount * sizeof(float);
  CHECK(plain / received(usual("onebit"), kRanks, kCount) >= 28);
  CHECK(plain / received(usual("int4"), kRanks, kCount) >= 7);
  CHECK(plain / received(usual("int8"), kRanks, kCount) >= 3.8);
}

}  // namespace
}  // namespace holdfast::comm
