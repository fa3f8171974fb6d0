// Linear combinations of tiles of bytes, each byte a symbol of the field: what encoding and
// decoding consist of. A loop is compiled per instruction level (loops/), with the same bytes at
// all levels. Tiles begin anywhere and have any length.
#pragma once

#include <cstddef>
#include <span>

#include "base/cpu.h"
#include "erasure/loops/kernels.h"

namespace holdfast::erasure {

// Of a level of this processor, with the instructions for this field that it may have beside it.
ProductLoop product_loop(CpuLevel level, bool galois = has_galois());
ProductLoop best_product_loop();

// outputs[r] = the sum over i of coefficients[r * inputs.size() + i] * inputs[i].
struct TileProducts {
  std::span<const std::byte* const> inputs;  // kMostInputs at most
  std::span<std::byte* const> outputs;       // overlap neither each other nor inputs
  std::span<const Symbol> coefficients;
  std::size_t bytes = 0;
};

// All outputs in one pass over the inputs.
void multiply_tiles(const TileProducts& products, ProductLoop loop = best_product_loop());

// out = coefficient * in. For these three, `out` may be `in`.
void multiply(Symbol coefficient, std::span<const std::byte> in, std::span<std::byte> out,
              ProductLoop loop = best_product_loop());
// out ^= coefficient * in.
void multiply_add(Symbol coefficient, std::span<const std::byte> in, std::span<std::byte> out,
                  ProductLoop loop = best_product_loop());
// out ^= in.
void xor_add(std::span<const std::byte> in, std::span<std::byte> out,
             ProductLoop loop = best_product_loop());

}  // namespace holdfast::erasure
