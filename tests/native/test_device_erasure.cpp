// The kernel of the code against its reference: any shape, alignment and length.
#include <doctest/doctest.h>

#include "erasure/device/tile_products.h"
#include "erasure/products.h"
#include "kernel_run.h"
#include "sim/random.h"

namespace holdfast::erasure {
namespace {

using device::Memory;

struct DeviceTiles {
  DeviceTiles(std::size_t count, std::size_t bytes, std::size_t offset) {
    for (std::size_t i = 0; i < count; ++i) tiles.emplace_back(bytes, offset);
    for (const Memory& each : tiles) data.push_back(each.data());
  }

  std::vector<Memory> tiles;
  std::vector<std::byte*> data;
};

struct ProductsCase {
  std::size_t inputs;
  std::size_t outputs;
  std::size_t bytes;
  std::size_t offset;  // of all tiles, from a vector's alignment
};

void compare(const ProductsCase& shape, sim::Random& chance) {
  const DeviceTiles inputs(shape.inputs, shape.bytes, shape.offset);
  for (const Memory& each : inputs.tiles) {
    for (std::size_t i = 0; i < shape.bytes; ++i) {
      each.data()[i] = static_cast<std::byte>(chance.next());
    }
  }
  std::vector<Symbol> coefficients(shape.inputs * shape.outputs);
  for (Symbol& each : coefficients) each = static_cast<Symbol>(chance.next());
  const std::vector<const std::byte*> from(inputs.data.begin(), inputs.data.end());
  const DeviceTiles expected(shape.outputs, shape.bytes, shape.offset);
  multiply_tiles({from, expected.data, coefficients, shape.bytes},
                 product_loop(CpuLevel::kReference));
  const Memory coefficient_memory = Memory::of(coefficients);
  const Memory input_places = Memory::of(from);
  for (const std::uint32_t blocks : {1U, 3U}) {
    const DeviceTiles outputs(shape.outputs, shape.bytes, shape.offset);
    const Memory output_places = Memory::of(outputs.data);
    const TileProductsArgument argument{.inputs = input_places.as<const std::byte*>(),
                                        .outputs = output_places.as<std::byte*>(),
                                        .coefficients = coefficient_memory.as<Symbol>(),
                                        .bytes = shape.bytes,
                                        .count = static_cast<std::uint32_t>(shape.inputs),
                                        .rows = static_cast<std::uint32_t>(shape.outputs),
                                        .unit_bytes = tile_unit(from, outputs.data)};
    device::run(multiply_tiles_kernel(), blocks, argument);
    for (std::size_t r = 0; r < shape.outputs; ++r) {
      CHECK_MESSAGE(outputs.tiles[r].copy() == expected.tiles[r].copy(), shape.inputs, " to ",
                    shape.outputs, ", ", shape.bytes, " bytes at ", shape.offset);
    }
  }
}

TEST_CASE("the kernel multiplies tiles as its reference, at any address and of any length") {
  sim::Random chance(1);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{4}, std::size_t{1}}) {
    compare({1, 1, 0, offset}, chance);
    compare({3, 2, 1, offset}, chance);
    compare({4, 2, 1023, offset}, chance);
    compare({8, 5, 4096, offset}, chance);
    compare({16, 4, 70'001, offset}, chance);
    for (int i = 0; i < 20; ++i) {
      compare({1 + chance.below(16), 1 + chance.below(9), chance.below(600), offset}, chance);
    }
  }
}

TEST_CASE("tiles are read by what all of them are aligned to") {
  alignas(16) std::byte memory[32];
  const std::byte* const wide[] = {memory, memory + 16};
  const std::byte* const narrow[] = {memory, memory + 4};
  std::byte* const output[] = {memory};
  std::byte* const odd[] = {memory + 3};
  CHECK(tile_unit(wide, output) == 16);
  CHECK(tile_unit(narrow, output) == 4);
  CHECK(tile_unit(wide, odd) == 1);
}

TEST_CASE("the log says where kernels ran") { MESSAGE(device::where()); }

}  // namespace
}  // namespace holdfast::erasure
