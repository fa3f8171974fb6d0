// ISA-L as judge: with our matrices its library writes our bytes.
#include <doctest/doctest.h>

#include <string>

#include "erasure/code.h"
#include "erasure_data.h"

#if defined(HOLDFAST_ISAL)
#include <isa-l/erasure_code.h>
#endif

namespace holdfast::erasure {
namespace {

#if defined(HOLDFAST_ISAL)
using sim::Random;
using testing::NamedLoop;
using testing::product_loops;
using testing::same_bytes;
using testing::Tiles;

// What ISA-L makes of inputs; it takes all pointers without const.
void multiply_by_isal(std::span<const Symbol> coefficients, const Tiles& inputs,
                      const Tiles& outputs) {
  const auto count = static_cast<int>(inputs.data().size());
  const auto rows = static_cast<int>(outputs.data().size());
  std::vector<unsigned char> matrix(coefficients.begin(), coefficients.end());
  std::vector<unsigned char> tables(32 * coefficients.size());
  std::vector<unsigned char*> from;
  std::vector<unsigned char*> to;
  for (std::byte* const each : inputs.data())
    from.push_back(reinterpret_cast<unsigned char*>(each));
  for (std::byte* const each : outputs.data()) to.push_back(reinterpret_cast<unsigned char*>(each));
  ec_init_tables(count, rows, matrix.data(), tables.data());
  ec_encode_data(static_cast<int>(inputs.tile(0).size()), count, rows, tables.data(), from.data(),
                 to.data());
}

void compare(std::size_t data, std::size_t parity, std::size_t bytes, Random& chance) {
  const ErasureCode code =
      ErasureCode::make({static_cast<int>(data), static_cast<int>(parity)}).value();
  Tiles inputs(data, bytes);
  inputs.fill(chance);
  const Tiles judge(parity, bytes);
  multiply_by_isal(code.generator().symbols().subspan(data * data), inputs, judge);
  const std::vector<const std::byte*> from = inputs.inputs();
  for (const NamedLoop& each : product_loops()) {
    const Tiles ours(parity, bytes);
    code.encode(from, ours.data(), bytes, each.loop);
    bool same = true;
    for (std::size_t i = 0; i < parity; ++i) same = same && same_bytes(ours.tile(i), judge.tile(i));
    CHECK_MESSAGE(same, data, "+", parity, " of ", bytes, ": ", each.name);
  }
}

TEST_CASE("ISA-L writes the same parity with the same matrix") {
  Random chance(7);
  compare(2, 1, 100'003, chance);
  compare(4, 2, 65'536, chance);
  compare(8, 2, 20'000, chance);
  compare(16, 4, 20'001, chance);
  for (int i = 0; i < 60; ++i) {
    const std::size_t data = 1 + chance.below(kMostShards - 1);
    const std::size_t parity = 1 + chance.below(kMostShards - data);
    compare(data, parity, 64 + chance.below(2001), chance);
  }
}

TEST_CASE("products of the field are ISA-L's") {
  for (unsigned a = 0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      const auto left = static_cast<Symbol>(a);
      const auto right = static_cast<Symbol>(b);
      if (times(left, right) != gf_mul(left, right)) FAIL(a, " times ", b);
    }
    if (a != 0) CHECK(inverse(static_cast<Symbol>(a)) == gf_inv(static_cast<Symbol>(a)));
  }
}

TEST_CASE("ISA-L's Cauchy matrix, scaled, is ours") {
  std::vector<unsigned char> theirs(20 * 16);
  gf_gen_cauchy1_matrix(theirs.data(), 20, 16);
  const auto at = [&](std::size_t row, std::size_t column) {
    return theirs[(16 + row) * 16 + column];
  };
  const ErasureCode code = ErasureCode::make({16, 4}).value();
  for (std::size_t row = 0; row < 4; ++row) {
    const Symbol scale = inverse(times(at(row, 0), inverse(at(0, 0))));
    for (std::size_t i = 0; i < 16; ++i) {
      const Symbol scaled = times(times(at(row, i), inverse(at(0, i))), scale);
      CHECK(code.coefficient(row, i) == scaled);
    }
  }
}
#else
TEST_CASE("ISA-L writes the same parity with the same matrix") {
  MESSAGE("skipped: built without ISA-L (Debian's libisal-dev)");
}
#endif

}  // namespace
}  // namespace holdfast::erasure
