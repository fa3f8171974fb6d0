// The code: what it is made of, that any k shards give all others, and what it refuses.
#include <doctest/doctest.h>

#include <bit>
#include <string>

#include "erasure/code.h"
#include "erasure_data.h"

namespace holdfast::erasure {
namespace {

using sim::Random;
using testing::NamedLoop;
using testing::product_loops;
using testing::same_bytes;
using testing::Tiles;

ErasureCode code_of(std::size_t data, std::size_t parity) {
  return ErasureCode::make({static_cast<int>(data), static_cast<int>(parity)}).value();
}

template <class F>
void each_shape(std::size_t most, F f) {
  for (std::size_t data = 1; data < most; ++data) {
    for (std::size_t parity = 1; data + parity <= most; ++parity) f(code_of(data, parity));
  }
}

// All shards of a code, the parity ones encoded.
struct Shards {
  Shards(const ErasureCode& of, std::size_t length, Random& chance,
         ProductLoop loop = best_product_loop())
      : code(of), tiles(of.shards(), length), bytes(length) {
    tiles.fill(chance);
    const std::vector<const std::byte*> all = tiles.inputs();
    code.encode(std::span(all).first(code.data()), tiles.data().subspan(code.data()), bytes, loop);
  }
  // Whether the wanted shards come out again, at other addresses.
  bool restores(const ShardSet& present, const ShardSet& wanted,
                ProductLoop loop = best_product_loop()) const {
    const Result<DecodePlan> plan = code.plan({present, wanted});
    if (!plan.is_ok()) return false;
    std::vector<const std::byte*> from;
    for (const std::size_t source : plan.value().sources) {
      if (!present[source]) return false;
      from.push_back(tiles[source]);
    }
    const Tiles out(wanted.count(), bytes, [](std::size_t i) { return (i * 9 + 1) % 64; });
    decode(plan.value(), from, out.data(), bytes, loop);
    for (std::size_t i = 0; i < wanted.count(); ++i) {
      if (!same_bytes(out.tile(i), tiles.tile(plan.value().wanted[i]))) return false;
    }
    return out.guarded();
  }

  ErasureCode code;
  Tiles tiles;
  std::size_t bytes;
};

TEST_CASE(
    "the generator is the identity over a Cauchy matrix whose first row and column are ones") {
  each_shape(kMostShards, [](const ErasureCode& code) {
    const std::size_t k = code.data();
    const auto cauchy = [&](std::size_t row, std::size_t column) {
      return inverse(static_cast<Symbol>((k + row) ^ column));
    };
    bool right = code.generator().rows() == code.shards();
    for (std::size_t row = 0; row < k; ++row) {
      for (std::size_t i = 0; i < k; ++i) {
        right = right && code.generator().at(row, i) == (row == i ? 1 : 0);
      }
    }
    for (std::size_t row = 0; row < code.parity(); ++row) {
      right = right && code.coefficient(row, 0) == 1;
      for (std::size_t i = 0; i < k; ++i) {
        // Scaling by rows and columns leaves the ratio of the products of opposite corners.
        right = right && times(code.coefficient(row, i), times(cauchy(0, i), cauchy(row, 0))) ==
                             times(cauchy(row, i), cauchy(0, 0));
        if (row == 0) right = right && code.coefficient(0, i) == 1;
      }
    }
    CHECK_MESSAGE(right, k, "+", code.parity());
  });
}

TEST_CASE("every square part of the parity rows has an inverse, up to 12 shards") {
  std::size_t parts = 0;
  each_shape(12, [&](const ErasureCode& code) {
    for (unsigned rows = 1; rows < 1U << code.parity(); ++rows) {
      for (unsigned columns = 1; columns < 1U << code.data(); ++columns) {
        if (std::popcount(rows) != std::popcount(columns)) continue;
        const auto size = static_cast<std::size_t>(std::popcount(rows));
        SymbolMatrix part(size, size);
        std::size_t r = 0;
        for (std::size_t row = 0; row < code.parity(); ++row) {
          if ((rows >> row & 1) == 0) continue;
          std::size_t c = 0;
          for (std::size_t i = 0; i < code.data(); ++i) {
            if ((columns >> i & 1) != 0) part.at(r, c++) = code.coefficient(row, i);
          }
          ++r;
        }
        const std::optional<SymbolMatrix> found = part.inverted();
        REQUIRE(found.has_value());
        if (part * *found != SymbolMatrix::identity(size)) FAIL("no inverse of ", size);
        ++parts;
      }
    }
  });
  CHECK(parts == 8100);
}

TEST_CASE("every loss of up to m shards is restored, up to 12 shards") {
  Random chance(4);
  std::size_t losses = 0;
  each_shape(12, [&](const ErasureCode& code) {
    const Shards shards(code, 70, chance);
    for (unsigned lost = 1; lost < 1U << code.shards(); ++lost) {
      if (static_cast<std::size_t>(std::popcount(lost)) > code.parity()) continue;
      const ShardSet wanted(lost);
      const ShardSet present = ~wanted & ~(~ShardSet{} << code.shards());
      if (!shards.restores(present, wanted)) {
        FAIL(code.data(), "+", code.parity(), " without ", to_string(wanted));
      }
      ++losses;
    }
  });
  CHECK(losses == 44'979);
}

TEST_CASE("random codes restore random losses of random lengths, at every level") {
  const std::vector<NamedLoop> loops = product_loops();
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random chance(seed);
    const std::size_t k = 1 + chance.below(kMostShards - 1);
    const ErasureCode code = code_of(k, 1 + chance.below(kMostShards - k));
    const NamedLoop& encoder = loops[seed % loops.size()];
    const NamedLoop& decoder = loops[chance.below(loops.size())];
    const Shards shards(code, chance.below(701), chance, encoder.loop);
    ShardSet present = ~(~ShardSet{} << code.shards());
    for (std::size_t lost = chance.below(code.parity() + 1); lost > 0; --lost) {
      present[chance.below(code.shards())] = false;
    }
    ShardSet wanted = ~present & ~(~ShardSet{} << code.shards());
    wanted[chance.below(code.shards())] = true;  // perhaps one that is there
    CHECK_MESSAGE(shards.restores(present, wanted, decoder.loop), "seed ", seed, ": ", k, "+",
                  code.parity(), " without ", to_string(~present), ", ", encoder.name, ", ",
                  decoder.name);
  }
}

TEST_CASE("one parity shard is the xor of the data, and one data shard is mirrored") {
  Random chance(5);
  const Shards sums(code_of(5, 1), 333, chance);
  bool right = true;
  for (std::size_t i = 0; i < sums.bytes; ++i) {
    std::byte sum{};
    for (std::size_t shard = 0; shard < 6; ++shard) sum ^= sums.tiles[shard][i];
    right = right && sum == std::byte{0};
  }
  CHECK(right);
  const Shards mirrors(code_of(1, 4), 333, chance);
  for (std::size_t shard = 1; shard < 5; ++shard) {
    CHECK(same_bytes(mirrors.tiles.tile(shard), mirrors.tiles.tile(0)));
  }
}

TEST_CASE("one lost data shard is the xor of the others and the first parity shard") {
  const DecodePlan plan = code_of(6, 3).plan({ShardSet(0b111111011), ShardSet(0b100)}).value();
  CHECK(plan.sources == std::vector<std::size_t>{0, 1, 3, 4, 5, 6});
  CHECK(plan.wanted == std::vector<std::size_t>{2});
  for (const Symbol each : plan.coefficients.symbols()) CHECK(each == 1);
}

TEST_CASE("hosts that multiply their own shards, and add up, make the same parity") {
  Random chance(6);
  const ErasureCode code = code_of(5, 3);
  const Shards shards(code, 1000, chance);
  for (std::size_t parity = 0; parity < 3; ++parity) {
    const Tiles sum(2, 1000);
    std::ranges::fill(sum.tile(0), std::byte{0});
    for (std::size_t host = 0; host < 5; ++host) {
      multiply(code.coefficient(parity, host), shards.tiles.tile(host), sum.tile(1));
      xor_add(sum.tile(1), sum.tile(0));
    }
    CHECK(same_bytes(sum.tile(0), shards.tiles.tile(5 + parity)));
  }
}

TEST_CASE("a shape that is none is refused with what is accepted") {
  for (const CodeShape shape : {CodeShape{0, 1}, CodeShape{1, 0}, CodeShape{-3, 2},
                                CodeShape{31, 2}, CodeShape{2'000'000'000, 2'000'000'000}}) {
    const Result<ErasureCode> made = ErasureCode::make(shape);
    REQUIRE_FALSE(made.is_ok());
    CHECK(made.status().code() == Code::kConfigError);
    CHECK(made.status().message() ==
          "no code has " + std::to_string(shape.data) + " data and " +
              std::to_string(shape.parity) +
              " parity shards: give at least one of each, and at most 32 together");
  }
  CHECK(ErasureCode::make({31, 1}).is_ok());
  CHECK(ErasureCode::make({1, 31}).value().shape() == CodeShape{1, 31});
}

TEST_CASE("losses that a code cannot restore are named") {
  const ErasureCode code = code_of(3, 1);
  const Result<DecodePlan> few = code.plan({ShardSet(0b1010), ShardSet(0b0001)});
  REQUIRE_FALSE(few.is_ok());
  CHECK(few.status().code() == Code::kPeerLost);
  CHECK(few.status().message() ==
        "a code of 3+1 restores 1 lost shard at most, and shards 0 and 2 are lost");
  const Result<DecodePlan> none = code_of(2, 2).plan({ShardSet{}, ShardSet(1)});
  CHECK(none.status().message() ==
        "a code of 2+2 restores 2 lost shards at most, and shards 0, 1, 2 and 3 are lost");
  const Result<DecodePlan> odd = code.plan({ShardSet(0b10111), ShardSet(1)});
  CHECK(odd.status().code() == Code::kConfigError);
  CHECK(odd.status().message() == "shard 4 cannot be present: a code of 3+1 has shards 0 to 3");
  const Result<DecodePlan> stray = code.plan({ShardSet(0b1111), ShardSet(0b1100000)});
  CHECK(stray.status().message() ==
        "shards 5 and 6 cannot be wanted: a code of 3+1 has shards 0 to 3");
}

}  // namespace
}  // namespace holdfast::erasure
