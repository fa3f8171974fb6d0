// Sums of multiplied tiles in a GPU's memory, with the bytes of products.h, which is its reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/kernel.h"
#include "erasure/field.h"

namespace holdfast::erasure {

// outputs[r] = the sum over i of coefficients[r * count + i] * inputs[i]. The three arrays are
// where the kernel reads them, in device memory or pinned.
struct TileProductsArgument {
  const std::byte* const* inputs;
  std::byte* const* outputs;
  const Symbol* coefficients;
  std::uint64_t bytes;
  std::uint32_t count;       // of inputs
  std::uint32_t rows;        // outputs
  std::uint32_t unit_bytes;  // tile_unit()
};

// holdfast_multiply_tiles
const device::KernelRow& multiply_tiles_kernel();
// What all tiles are aligned to, of that which a thread reads at a time: 16, 4 or 1.
std::uint32_t tile_unit(std::span<const std::byte* const> inputs,
                        std::span<std::byte* const> outputs);
// How many threads the tiles keep busy.
std::uint64_t tile_threads(const TileProductsArgument& argument);

}  // namespace holdfast::erasure
