// The loop at the baseline level, where no instruction looks bytes up: Horner's rule in the bits of
// the coefficients. A sum is doubled seven times for all inputs together, and each input is added
// to it as often as its coefficient has ones. Doubling shifts every byte, and subtracts the
// polynomial from those that overflow. Compiler flags are in cmake/simd.cmake.
#include <cstring>

#include "erasure/loops/kernels.h"

namespace holdfast::erasure {
namespace {

// The vector that all processors of our architectures have.
using Lane = signed char __attribute__((vector_size(16)));
constexpr std::size_t kLaneBytes = 16;
constexpr std::size_t kLanesAtOnce = 4;  // in registers, with one more to load and two for masks

struct BitSums {
  Lane lane[kLanesAtOnce];
};

// Which inputs a row adds before each doubling, the highest bit first.
struct BitInputs {
  std::uint8_t input[8 * kMostInputs];
  std::uint16_t ends[8];
};

BitInputs inputs_by_bit(const Symbol* coefficients, std::size_t count) {
  BitInputs out;
  std::uint16_t filled = 0;
  for (unsigned bit = 8; bit-- > 0;) {
    for (std::size_t i = 0; i < count; ++i) {
      if ((coefficients[i] >> bit & 1) != 0) out.input[filled++] = static_cast<std::uint8_t>(i);
    }
    out.ends[7 - bit] = filled;
  }
  return out;
}

void double_sums(BitSums& sums) {
  constexpr auto kRest = static_cast<signed char>(kFieldPolynomial & 0xff);
  for (Lane& lane : sums.lane) {
    const Lane overflows = lane < 0;
    lane = (lane + lane) ^ (overflows & kRest);
  }
}

void add_to_sums(BitSums& sums, const std::byte* from, std::size_t bytes) {
  BitSums input{};
  std::memcpy(&input, from, bytes);
  for (std::size_t i = 0; i < kLanesAtOnce; ++i) sums.lane[i] ^= input.lane[i];
}

[[gnu::always_inline]] inline void sum_block(const ProductRun& run, const BitInputs& added,
                                             std::byte* output, std::size_t at, std::size_t bytes) {
  BitSums sums{};
  std::size_t next = 0;
  for (std::size_t bit = 0; bit < 8; ++bit) {
    double_sums(sums);
    for (; next < added.ends[bit]; ++next) {
      add_to_sums(sums, run.inputs[added.input[next]] + at, bytes);
    }
  }
  if (run.add) add_to_sums(sums, output + at, bytes);
  std::memcpy(output + at, &sums, bytes);
}

// Inputs are near for all rows of a span.
constexpr std::size_t kSpanBytes = 1024;

void baseline_loop(const ProductRun& given) {
  const ProductRun run = given;
  constexpr std::size_t kBlock = kLaneBytes * kLanesAtOnce;
  BitInputs added[kMostRows];
  for (std::size_t r = 0; r < run.rows; ++r) {
    added[r] = inputs_by_bit(run.coefficients + r * run.count, run.count);
  }
  for (std::size_t begin = run.begin; begin < run.end; begin += kSpanBytes) {
    const std::size_t end = run.end - begin < kSpanBytes ? run.end : begin + kSpanBytes;
    for (std::size_t r = 0; r < run.rows; ++r) {
      std::size_t at = begin;
      for (; at + kBlock <= end; at += kBlock) {
        sum_block(run, added[r], run.outputs[r], at, kBlock);
      }
      if (at < end) sum_block(run, added[r], run.outputs[r], at, end - at);
    }
  }
}

}  // namespace

ProductLoop product_loop_baseline() { return baseline_loop; }

}  // namespace holdfast::erasure
