// Products of tiles: every instruction level writes the reference's bytes, wherever tiles begin and
// however long they are, and nothing beside them.
#include <doctest/doctest.h>

#include <array>

#include "erasure/field.h"
#include "erasure_data.h"

namespace holdfast::erasure {
namespace {

using sim::Random;
using testing::NamedLoop;
using testing::product_loops;
using testing::same_bytes;
using testing::Tiles;

std::vector<Symbol> any_symbols(std::size_t count, Random& chance) {
  std::vector<Symbol> out(count);
  for (Symbol& each : out) each = static_cast<Symbol>(chance.next());
  return out;
}

// The outputs of the reference are the judge.
struct Judged {
  Judged(std::size_t inputs_count, std::size_t outputs_count, std::size_t length, Random& chance)
      : inputs(inputs_count, length),
        expected(outputs_count, length),
        coefficients(any_symbols(inputs_count * outputs_count, chance)),
        bytes(length) {
    inputs.fill(chance);
  }
  void judge() { run(expected, product_loop(CpuLevel::kReference)); }
  void run(const Tiles& outputs, ProductLoop loop) {
    const std::vector<const std::byte*> from = inputs.inputs();
    multiply_tiles({from, outputs.data(), coefficients, bytes}, loop);
  }
  bool agrees(const Tiles& outputs) const {
    for (std::size_t r = 0; r < outputs.data().size(); ++r) {
      if (!same_bytes(outputs.tile(r), expected.tile(r))) return false;
    }
    return outputs.guarded() && inputs.guarded();
  }

  Tiles inputs;
  Tiles expected;
  std::vector<Symbol> coefficients;
  std::size_t bytes;
};

TEST_CASE("every symbol that is not zero has an inverse, and products are those of polynomials") {
  for (unsigned a = 0; a < 256; ++a) {
    const auto left = static_cast<Symbol>(a);
    if (a != 0) CHECK(times(left, inverse(left)) == 1);
    for (unsigned b = 0; b < 256; ++b) {
      unsigned product = 0;
      for (unsigned bit = 0; bit < 8; ++bit) {
        if ((b >> bit & 1) != 0) product ^= a << bit;
      }
      for (unsigned bit = 15; bit-- > 8;) {
        if ((product >> bit & 1) != 0) product ^= kFieldPolynomial << (bit - 8);
      }
      if (times(left, static_cast<Symbol>(b)) != product) FAIL("times ", a, " ", b);
    }
  }
}

TEST_CASE("every level multiplies every byte by every constant") {
  std::array<std::byte, 256> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i);
  for (const NamedLoop& each : product_loops()) {
    CAPTURE(each.name);
    for (unsigned constant = 0; constant < 256; ++constant) {
      const auto by = static_cast<Symbol>(constant);
      std::array<std::byte, 256> out{};
      multiply(by, all, out, each.loop);
      std::array<std::byte, 256> sum = all;
      multiply_add(by, all, sum, each.loop);
      bool right = true;
      for (unsigned i = 0; i < 256; ++i) {
        const Symbol product = times(by, static_cast<Symbol>(i));
        right = right && static_cast<Symbol>(out[i]) == product &&
                static_cast<Symbol>(sum[i]) == (product ^ i);
      }
      CHECK_MESSAGE(right, "constant ", constant);
    }
  }
}

TEST_CASE("every level writes tiles of 0 to 300 bytes at any address, and nothing beside them") {
  Random chance(1);
  const std::vector<NamedLoop> loops = product_loops();
  for (std::size_t bytes = 0; bytes <= 300; ++bytes) {
    for (std::size_t rows = 1; rows <= kMostRows + 1; ++rows) {
      Judged judged(1 + bytes % 5, rows, bytes, chance);
      // As parity shards of a code have: the first row adds only.
      if (bytes % 2 == 0) std::fill_n(judged.coefficients.begin(), 1 + bytes % 5, Symbol{1});
      judged.judge();
      for (const NamedLoop& each : loops) {
        Tiles outputs(rows, bytes, [&](std::size_t i) { return (bytes + 13 * i) % 64; });
        judged.run(outputs, each.loop);
        CHECK_MESSAGE(judged.agrees(outputs), each.name, ": ", rows, " of ", bytes);
      }
    }
  }
}

TEST_CASE("every level adds to what is there, also in place") {
  Random chance(2);
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{63}, std::size_t{300}, std::size_t{4099}}) {
    Tiles given(2, bytes);
    given.fill(chance);
    const auto by = static_cast<Symbol>(2 + chance.below(254));
    for (const NamedLoop& each : product_loops()) {
      CAPTURE(each.name);
      CAPTURE(bytes);
      Tiles out(3, bytes, [](std::size_t i) { return 11 * i; });
      for (std::size_t i = 0; i < 3; ++i) std::ranges::copy(given.tile(1), out[i]);
      multiply_add(by, given.tile(0), out.tile(0), each.loop);
      xor_add(given.tile(0), out.tile(1), each.loop);
      multiply(by, out.tile(2), out.tile(2), each.loop);
      bool right = out.guarded();
      for (std::size_t i = 0; i < bytes; ++i) {
        const auto in = static_cast<Symbol>(given[0][i]);
        const auto there = static_cast<Symbol>(given[1][i]);
        right = right && static_cast<Symbol>(out[0][i]) == (there ^ times(by, in)) &&
                static_cast<Symbol>(out[1][i]) == (there ^ in) &&
                static_cast<Symbol>(out[2][i]) == times(by, there);
      }
      CHECK(right);
      xor_add(out.tile(1), out.tile(1), each.loop);
      CHECK(std::ranges::count(out.tile(1), std::byte{0}) == static_cast<std::ptrdiff_t>(bytes));
    }
  }
}

TEST_CASE("every level writes long tiles, more rows than registers hold, and past the caches") {
  struct LongTiles {
    std::size_t inputs;
    std::size_t outputs;
    std::size_t bytes;
    bool alike;
  };
  constexpr std::size_t kMega = std::size_t{1} << 20;
  const LongTiles shapes[] = {{2, 1, kMega, false},         {3, 2, kMega + 1, false},
                              {16, 16, 40'000 + 77, false}, {2, 2, 4 * kMega + 333, true},
                              {1, 9, kMega - 5, true},      {2, 1, 8 * kMega + 1, false},
                              {1, 2, 4 * kMega, false}};
  Random chance(3);
  for (const LongTiles& shape : shapes) {
    Judged judged(shape.inputs, shape.outputs, shape.bytes, chance);
    judged.judge();
    for (const NamedLoop& each : product_loops()) {
      if (each.loop == product_loop(CpuLevel::kReference)) continue;
      const std::size_t step = shape.alike ? 0 : 5;
      Tiles outputs(shape.outputs, shape.bytes,
                    [&](std::size_t i) { return (21 + step * i) % 64; });
      judged.run(outputs, each.loop);
      CHECK_MESSAGE(judged.agrees(outputs), each.name, ": ", shape.outputs, " of ", shape.bytes);
    }
  }
}

}  // namespace
}  // namespace holdfast::erasure
