// topk's only pass over all elements: it collects those that reach a magnitude. Later steps work on
// these few.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "compress/loops/kernels.h"
#include "compress/loops/lanes.h"
#include "compress/loops/topk_rank.h"

namespace holdfast::compress {
namespace {

template <bool kResidual>
std::uint64_t collect_as(CollectRun run) {
  std::uint64_t* out = run.out;
  for (std::uint64_t i = 0; i < run.count; i += kLanes) {
    Floats x = load(run.input + 4 * i);
    if constexpr (kResidual) {
      x = x + load(run.residual + i);
      store(run.residual + i, x);
    }
    // Both numbers are below 2^31, so the sign of the difference says which is less.
    std::uint32_t mask = signs(floats_of(magnitude(x) - words(run.threshold))) ^ 0xffffU;
    if (mask == 0) continue;
    std::array<std::uint32_t, kLanes> bits;
    store(bits.data(), x);
    for (; mask != 0; mask &= mask - 1) {
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
      *out++ = rank_of(bits[lane], run.first + static_cast<std::uint32_t>(i) + lane);
    }
  }
  return static_cast<std::uint64_t>(out - run.out);
}

// Writes the ranks of the elements whose magnitude has at least the threshold's bits, in order of
// their numbers; returns how many there are.
[[maybe_unused]] std::uint64_t collect_loop(const CollectRun& run) {
  return run.residual != nullptr ? collect_as<true>(run) : collect_as<false>(run);
}

}  // namespace
}  // namespace holdfast::compress
