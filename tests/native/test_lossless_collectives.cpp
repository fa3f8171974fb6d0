// Lossless codecs in collectives, over every transport: moved data arrives bit by bit, sums are
// those of the definition on every rank, fewer bytes cross, and a damaged frame is never a result.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "codec_data.h"
#include "comm/algorithms/catalogue.h"
#include "comm/engine/run.h"
#include "fabrics.h"
#include "link_world.h"

namespace holdfast::comm {
namespace {

using compress::Codec;
using testing::LinkWorld;
using Bytes = std::vector<std::byte>;

struct Case {
  Collective collective;
  int size;
  Codec codec;
  DType dtype;
  int pieces = 1;
  ReduceOp op = ReduceOp::kSum;
  const topology::Fabric* fabric = nullptr;  // two levels; nullptr: two phases
};

struct RankMemory {
  std::vector<Bytes> input;
  std::vector<Bytes> output;
};

bool many_in(Collective c) { return c == Collective::kReduceScatter || c == Collective::kAllToAll; }
bool many_out(Collective c) { return c == Collective::kAllGather || c == Collective::kAllToAll; }

BlockList blocks_of(std::vector<Bytes>& of, DType dtype) {
  BlockList result;
  for (Bytes& v : of) result.push_back({v.data(), v.size() / dtype_bytes(dtype)});
  return result;
}

std::unique_ptr<Run> start(LinkWorld& world, const Case& c, std::size_t rank, RankMemory& memory,
                           BufferPool& pool, std::uint32_t number) {
  const BuildSpec spec{c.collective, {static_cast<int>(rank)}, c.size, {0}, c.fabric, c.pieces};
  const auto* row =
      find_encoded(c.collective, c.fabric == nullptr ? "two_phase" : "two_level_coded");
  const Schedule schedule = row->build(spec);
  const Layout layout = make_layout(schedule, blocks_of(memory.input, c.dtype),
                                    blocks_of(memory.output, c.dtype), dtype_bytes(c.dtype));
  const Arithmetic arithmetic{c.dtype, c.op, static_cast<std::uint32_t>(c.size)};
  return std::make_unique<Run>(lower(schedule, layout, arithmetic, pool, {c.codec, {}, {}, {}}),
                               RunKey{{1}, {0}, number, 0, 0}, world.links[rank]);
}

// Returns what all of them sent as frames.
EncodedBytes run(LinkWorld& world, const Case& c, std::vector<RankMemory>& ranks,
                 std::uint32_t number) {
  BufferPool pool;
  std::vector<std::unique_ptr<Run>> runs;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    runs.push_back(start(world, c, r, ranks[r], pool, number));
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
  EncodedBytes sent;
  for (const auto& one : runs) {
    sent.plain_bytes += one->encoded().plain_bytes;
    sent.frame_bytes += one->encoded().frame_bytes;
  }
  return sent;
}

Bytes noise(std::size_t bytes, std::uint64_t seed) {
  compress::Chance chance(seed);
  Bytes out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(chance.next() >> 11);
  return out;
}

Bytes text(std::size_t bytes, std::uint64_t seed) {
  constexpr std::string_view kWords = "the sum of all ranks is what each rank was given to add ";
  compress::Chance chance(seed);
  Bytes out(bytes);
  for (std::size_t i = 0, at = 0; i < bytes; ++i, ++at) {
    if (chance.next() % 23 == 0) at = chance.next();
    out[i] = static_cast<std::byte>(kWords[at % kWords.size()]);
  }
  return out;
}

// Gaussian, in this dtype.
Bytes gaussian(std::size_t count, DType dtype, std::uint64_t seed) {
  const auto values = compress::normals(count, seed);
  if (dtype == DType::kF32) {
    const auto bytes = compress::bytes_of(values);
    return {bytes.begin(), bytes.end()};
  }
  const char* half = dtype == DType::kBF16 ? "bf16" : "fp16";
  return compress::encoded(compress::made(half), compress::bytes_of(values), DType::kF32);
}

// Infinities, NaN of every payload, zeros of both signs, denormals: all patterns of 16 bits.
Bytes special(std::size_t bytes, std::uint64_t seed) {
  Bytes out(bytes);
  for (std::size_t i = 0; i + 2 <= bytes; i += 2) {
    const auto x = static_cast<std::uint16_t>((i / 2 + seed) * 40503U);
    std::memcpy(out.data() + i, &x, 2);
  }
  return out;
}

Bytes data_of_kind(int kind, std::size_t bytes, std::uint64_t seed) {
  switch (kind) {
    case 0: return noise(bytes, seed);
    case 1: return text(bytes, seed);
    case 2: return special(bytes, seed);
    default: return Bytes(bytes);
  }
}

struct Taken {
  Codec codec;
  DType dtype;
};

std::vector<Taken> all_taken() {
  std::vector<Taken> all;
  for (const auto& row : compress::catalogue()) {
    if (!row.spec.lossless || !compress::is_built(row)) continue;
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (row.takes(dtype)) all.push_back({compress::made(row.spec.name), dtype});
    }
  }
  if (compress::has_zstd()) {
    all.push_back({compress::made("bfloat", {.tier = compress::Tier::kDense}), DType::kBF16});
  }
  return all;
}

// `count[from][to]` elements.
using Counts = std::vector<std::vector<std::size_t>>;

void expect_moved(LinkWorld& world, const Case& c, const Counts& counts, int kind,
                  std::uint32_t number) {
  const auto n = static_cast<std::size_t>(c.size);
  const std::size_t element = dtype_bytes(c.dtype);
  std::vector<RankMemory> ranks(n);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t b = 0; b < (many_in(c.collective) ? n : 1); ++b) {
      ranks[r].input.push_back(data_of_kind(kind, counts[r][b] * element, 100 * r + b + number));
    }
    for (std::size_t b = 0; b < (many_out(c.collective) ? n : 1); ++b) {
      const std::size_t at = c.collective == Collective::kAllToAll ? r : 0;
      ranks[r].output.emplace_back(counts[b][at] * element, std::byte{0x5a});
    }
  }
  run(world, c, ranks, number);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t b = 0; b < ranks[r].output.size(); ++b) {
      CAPTURE(r);
      CAPTURE(b);
      const std::size_t at = c.collective == Collective::kAllToAll ? r : 0;
      CHECK(ranks[r].output[b] == ranks[b].input[at]);
    }
  }
}

constexpr Collective kMoving[] = {Collective::kAllGather, Collective::kAllToAll,
                                  Collective::kBroadcast};

TEST_CASE("what is moved arrives bit by bit, in every dtype and of every kind of data") {
  for (const auto& transport : testing::transports()) {
    CAPTURE(transport.name);
    for (const int n : {1, 2, 3, 5}) {
      LinkWorld world(transport, n);
      std::uint32_t number = 0;
      for (const Taken& taken : all_taken()) {
        CAPTURE(taken.codec.text());
        CAPTURE(dtype_name(taken.dtype));
        for (const std::size_t count : {0U, 1U, 5U, 1000U, 30'011U}) {
          CAPTURE(count);
          const Counts counts(5, std::vector<std::size_t>(5, count));
          for (const Collective collective : kMoving) {
            CAPTURE(collective_name(collective));
            const Case c{collective, n, taken.codec, taken.dtype, count > 1000 ? 3 : 1};
            expect_moved(world, c, counts, static_cast<int>(number % 4), number);
            ++number;
          }
        }
      }
    }
  }
}

TEST_CASE("blocks of different sizes, some of nothing, are exchanged exactly") {
  const Counts counts{{10, 0, 70'000}, {1, 33, 0}, {40'000, 8193, 5}};
  for (const auto& transport : testing::transports()) {
    LinkWorld world(transport, 3);
    std::uint32_t number = 0;
    for (const Taken& taken : all_taken()) {
      for (int kind = 0; kind < 4; ++kind) {
        expect_moved(world, {Collective::kAllToAll, 3, taken.codec, taken.dtype}, counts, kind,
                     number++);
        expect_moved(world, {Collective::kAllGather, 3, taken.codec, taken.dtype, 2}, counts, kind,
                     number++);
      }
    }
  }
}

std::vector<float> widened(const Bytes& x, DType dtype) {
  std::vector<float> out(x.size() / dtype_bytes(dtype));
  if (dtype == DType::kF32) {
    if (!x.empty()) std::memcpy(out.data(), x.data(), x.size());
    return out;
  }
  const char* half = dtype == DType::kBF16 ? "bf16" : "fp16";
  REQUIRE(
      compress::made(half).decode(x, DType::kF32, std::as_writable_bytes(std::span(out))).is_ok());
  return out;
}

Bytes narrowed(const std::vector<float>& x, DType dtype) {
  const auto bytes = compress::bytes_of(x);
  if (dtype == DType::kF32) return {bytes.begin(), bytes.end()};
  const char* half = dtype == DType::kBF16 ? "bf16" : "fp16";
  return compress::encoded(compress::made(half), bytes, DType::kF32);
}

// In f32, rank by rank, divided there, rounded once.
Bytes plain_sum(const Case& c, const std::vector<RankMemory>& ranks, std::size_t block) {
  std::vector<float> sum;
  for (const RankMemory& memory : ranks) {
    const auto values = widened(memory.input[block], c.dtype);
    if (sum.empty())
      sum = values;
    else
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + values[i];
  }
  if (c.op == ReduceOp::kAvg) {
    for (float& x : sum) x = x / static_cast<float>(c.size);
  }
  return narrowed(sum, c.dtype);
}

TEST_CASE("a sum is the f32 sum in rank order, rounded once, on every rank") {
  for (const auto& transport : testing::transports()) {
    CAPTURE(transport.name);
    for (const int n : {2, 3, 4}) {
      LinkWorld world(transport, n);
      std::uint32_t number = 0;
      for (const Taken& taken : all_taken()) {
        if (taken.dtype != DType::kF32 && taken.dtype != DType::kBF16 &&
            taken.dtype != DType::kF16) {
          continue;
        }
        CAPTURE(taken.codec.text());
        CAPTURE(dtype_name(taken.dtype));
        for (const std::size_t count : {0U, 1U, 1000U, 50'021U}) {
          for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
            const ReduceOp op = ++number % 2 == 0 ? ReduceOp::kSum : ReduceOp::kAvg;
            const Case c{collective, n, taken.codec, taken.dtype, count > 1000 ? 2 : 1, op};
            const bool scatters = collective == Collective::kReduceScatter;
            std::vector<RankMemory> ranks(static_cast<std::size_t>(n));
            for (std::size_t r = 0; r < ranks.size(); ++r) {
              for (std::size_t b = 0; b < (scatters ? ranks.size() : 1); ++b) {
                ranks[r].input.push_back(gaussian(count, c.dtype, 100 * r + b + number));
              }
              ranks[r].output.emplace_back(ranks[r].input[0].size());
            }
            run(world, c, ranks, number);
            for (std::size_t r = 0; r < ranks.size(); ++r) {
              CHECK(ranks[r].output[0] == plain_sum(c, ranks, scatters ? r : 0));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("hosts sum up first, and all ranks have the same bits") {
  LinkWorld world(testing::transports()[0], 5);
  std::vector<RankMemory> ranks(5);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].input.push_back(gaussian(70'001, DType::kBF16, r + 1));
    ranks[r].output.emplace_back(ranks[r].input[0].size());
  }
  const topology::Fabric fabric = holdfast::testing::on_hosts({0, 1, 0, 1, 0});
  const Case c{Collective::kAllReduce, 5,      compress::made("bfloat"), DType::kBF16, 2,
               ReduceOp::kSum,         &fabric};
  run(world, c, ranks, 1);
  const auto exact = widened(plain_sum(c, ranks, 0), DType::kBF16);
  const auto got = widened(ranks[0].output[0], DType::kBF16);
  for (std::size_t i = 0; i < got.size(); ++i) {
    // Sums are rounded inside the hosts, and once more where they meet: 2^-8 of less than 16 each.
    CHECK(std::abs(got[i] - exact[i]) <= 0.125F);
  }
  for (const RankMemory& memory : ranks) CHECK(memory.output == ranks[0].output);
}

TEST_CASE("fewer bytes cross the links, and what cannot be made smaller hardly grows") {
  constexpr std::size_t kCount = 600'000;
  struct Wire {
    Bytes data;
    DType dtype;
    Codec codec;
    double least;  // bytes without the codec by those with it
    double most;
  };
  std::vector<Wire> wires{
      {gaussian(kCount, DType::kBF16, 3), DType::kBF16, compress::made("bfloat"), 1.40, 1.6},
      {noise(2 * kCount, 5), DType::kBF16, compress::made("bfloat"), 0.999, 1.0}};
  if (compress::has_zstd()) {
    wires.push_back({gaussian(kCount, DType::kBF16, 3), DType::kBF16,
                     compress::made("bfloat", {.tier = compress::Tier::kDense}), 1.48, 1.6});
    wires.push_back({text(kCount, 7), DType::kU8, compress::made("zstd"), 2.0, 100.0});
    wires.push_back({noise(kCount, 5), DType::kU8, compress::made("zstd"), 0.999, 1.0});
  }
  for (const auto& transport : testing::transports()) {
    for (const Wire& wire : wires) {
      CAPTURE(wire.codec.text());
      CAPTURE(transport.name);
      LinkMeter meter;
      LinkWorld world(transport, 2);
      world.links[0][1]->set_meter(&meter);
      std::vector<RankMemory> ranks(2);
      for (RankMemory& memory : ranks) {
        memory.input.push_back(wire.data);
        memory.output.assign(2, Bytes(wire.data.size()));
      }
      const EncodedBytes sent =
          run(world, {Collective::kAllGather, 2, wire.codec, wire.dtype, 2}, ranks, 1);
      CHECK(sent.plain_bytes == 2 * wire.data.size());
      for (const double bytes :
           {static_cast<double>(sent.frame_bytes) / 2, static_cast<double>(meter.sent.value())}) {
        if (bytes == 0) continue;  // a transport that does not count
        const double ratio = static_cast<double>(wire.data.size()) / bytes;
        // The links' frames have headers, too.
        CHECK(ratio >= 0.999 * wire.least);
        CHECK(ratio <= wire.most);
      }
    }
  }
}

// A peer whose frame is damaged on its way, or made by something else: rank 1, by hand.
void expect_refused(const Case& c, const Bytes& frame, std::size_t count) {
  LinkWorld world(testing::transports()[0], 2);
  BufferPool pool;
  RankMemory memory;
  const Bytes before(count * dtype_bytes(c.dtype), std::byte{0x77});
  memory.input.push_back(data_of_kind(1, before.size(), 1));
  memory.output.assign(many_out(c.collective) ? 2 : 1, before);
  const auto run = start(world, c, 0, memory, pool, 1);
  bool touched = false;
  SendPost send;
  send.key = {{1}, {0}, 1, 0};
  // All-reduce: of the half of it that rank 0 sums up.
  const std::size_t elements = c.collective == Collective::kAllReduce ? count / 2 : count;
  send.total_bytes = c.codec.encoded_bound(c.dtype, elements);
  REQUIRE(frame.size() <= send.total_bytes);
  send.unused = send.total_bytes - frame.size();
  send.ready = send.total_bytes;
  send.data = frame.data();
  send.touched = &touched;
  world.links[1][0]->session().post(send);
  for (int turn = 0; turn < 20 && !run->failed(); ++turn) {
    world.pump();
    run->advance();
  }
  CHECK(run->failed());
  CHECK(run->failure().code() == Code::kProtocolError);
  CHECK(run->failed_peer() == Rank{1});
  CHECK(memory.output.back() == before);
  world.links[1][0]->cancel(send);
}

TEST_CASE("a damaged frame ends the op, is blamed on who sent it, and is not in the result") {
  constexpr std::size_t kCount = 60'000;
  for (const Taken& taken : all_taken()) {
    if (taken.dtype != DType::kBF16) continue;
    CAPTURE(taken.codec.text());
    for (const Collective collective : {Collective::kAllGather, Collective::kAllReduce}) {
      const Case c{collective, 2, taken.codec, taken.dtype};
      const std::size_t count = collective == Collective::kAllReduce ? kCount / 2 : kCount;
      const Bytes frame = compress::encoded(taken.codec, gaussian(count, c.dtype, 3), DType::kBF16);
      for (const std::size_t at :
           {std::size_t{0}, std::size_t{9}, std::size_t{40}, frame.size() / 2, frame.size() - 1}) {
        Bytes flipped = frame;
        flipped[at] ^= std::byte{0x10};
        expect_refused(c, flipped, kCount);
      }
      expect_refused(c, Bytes(frame.begin(), frame.end() - 1), kCount);
      expect_refused(c, Bytes(frame.begin(), frame.begin() + 7), kCount);
      expect_refused(c, compress::encoded(taken.codec, gaussian(count - 1, c.dtype, 3), c.dtype),
                     kCount);
    }
  }
}

}  // namespace
}  // namespace holdfast::comm
