#include "state/erasure.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "erasure/code.h"
#include "gil.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using erasure::ErasureCode;
using erasure::ShardSet;
using erasure::Symbol;
using Tile = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstTile = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// outputs[r] = the sum over i of coefficients[r * inputs + i] * inputs[i].
void multiply_tiles(const std::vector<Tile>& outputs, const std::vector<ConstTile>& inputs,
                    const std::vector<int>& coefficients) {
  const std::size_t bytes = outputs.empty() ? 0 : outputs[0].size();
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::vector<Symbol> symbols;
  for (const ConstTile& tile : inputs) {
    if (tile.size() != bytes) throw nb::value_error("tiles have one length");
    from.push_back(reinterpret_cast<const std::byte*>(tile.data()));
  }
  for (const Tile& tile : outputs) {
    if (tile.size() != bytes) throw nb::value_error("tiles have one length");
    to.push_back(reinterpret_cast<std::byte*>(tile.data()));
  }
  for (const int value : coefficients) {
    if (value < 0 || value > 255) throw nb::value_error("coefficients are 0 to 255");
    symbols.push_back(static_cast<Symbol>(value));
  }
  if (symbols.size() != from.size() * to.size() || from.size() > erasure::kMostInputs) {
    throw nb::value_error("a coefficient to each pair of an output and an input, of a few inputs");
  }
  const GilReleased released;
  erasure::multiply_tiles({from, to, symbols, bytes});
}

ShardSet set_of(const std::vector<std::size_t>& shards) {
  ShardSet set;
  for (const std::size_t shard : shards) {
    if (shard >= set.size()) throw nb::value_error("no such shard");
    set.set(shard);
  }
  return set;
}

// (sources, wanted, a row of coefficients to each wanted one)
std::tuple<std::vector<std::size_t>, std::vector<std::size_t>, std::vector<std::vector<int>>> plan(
    const ErasureCode& code, const std::vector<std::size_t>& present,
    const std::vector<std::size_t>& wanted) {
  const auto found = value_or_raise(code.plan({set_of(present), set_of(wanted)}));
  std::vector<std::vector<int>> rows;
  for (std::size_t r = 0; r < found.wanted.size(); ++r) {
    const auto row = found.coefficients.row(r);
    rows.emplace_back(row.begin(), row.end());
  }
  return {found.sources, found.wanted, rows};
}

}  // namespace

void bind_erasure(nb::module_& m) {
  m.def("multiply_tiles", &multiply_tiles, "outputs"_a, "inputs"_a, "coefficients"_a);
  nb::class_<ErasureCode>(m, "ErasureCode")
      .def(nb::new_([](int data, int parity) {
             return value_or_raise(ErasureCode::make({data, parity}));
           }),
           "data"_a, "parity"_a)
      .def(
          "coefficient",
          [](const ErasureCode& code, std::size_t parity, std::size_t data) {
            if (parity >= code.parity() || data >= code.data())
              throw nb::value_error("no such shard");
            return static_cast<int>(code.coefficient(parity, data));
          },
          "parity"_a, "data"_a)
      .def("plan", &plan, "present"_a, "wanted"_a);
}

}  // namespace holdfast::bindings
