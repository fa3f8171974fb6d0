// The loop over vectors: a block of every input is read once, multiplied for all rows, and added to
// sums that stay in registers. Each instruction level compiles this file again with its own lanes:
// vectors (Vector, load(), store()) and constants (Factor, Operand, add_product()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "erasure/loops/kernels.h"
#include "erasure/loops/lanes.h"

namespace holdfast::erasure {
namespace {

// Calls f with the constants 0 .. kCount - 1. Compilers keep arrays in registers only where all
// their indices are known.
template <std::size_t kCount, class F>
[[gnu::always_inline]] inline void unrolled(F f) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) __attribute__((always_inline)) {
    (f(kIndex), ...);
  }
  (std::make_index_sequence<kCount>{});
}

// What a loop is compiled for.
template <std::size_t kRowsHere, bool kSumHere, bool kAddHere, bool kPastHere>
struct RowsForm {
  static constexpr std::size_t kRows = kRowsHere;
  static constexpr bool kSum = kSumHere;    // all coefficients of the first row are one
  static constexpr bool kAdd = kAddHere;    // to what outputs have
  static constexpr bool kPast = kPastHere;  // the caches
  static constexpr std::size_t kVectors = vectors_at_once(kRowsHere, kSumHere);
};

// Blocks of kVectors vectors; returns where they end.
template <class Form, std::size_t kVectors>
std::size_t rows_of_blocks(const ProductRun& given, const StoredFactor* factors, std::size_t at) {
  const ProductRun run = given;
  for (; at + kVectors * kWidth <= run.end; at += kVectors * kWidth) {
    Vector sums[Form::kRows][kVectors];
    unrolled<Form::kRows>([&](std::size_t r) __attribute__((always_inline)) {
      unrolled<kVectors>([&](std::size_t v) __attribute__((always_inline)) {
        sums[r][v] = Form::kAdd ? load(run.outputs[r] + at + v * kWidth) : zero();
      });
    });
    const StoredFactor* factor = factors;
    for (std::size_t i = 0; i < run.count; ++i, factor += Form::kRows) {
      const std::byte* const from = run.inputs[i] + at;
      Vector input[kVectors];
      unrolled<kVectors>([&](std::size_t v) __attribute__((always_inline)) {
        input[v] = load(from + v * kWidth);
      });
      if constexpr (Form::kSum) {
        unrolled<kVectors>([&](std::size_t v) __attribute__((always_inline)) {
          sums[0][v] = sums[0][v] ^ input[v];
        });
      }
      if constexpr (Form::kRows > (Form::kSum ? 1 : 0)) {
        Operand operand[kVectors];
        unrolled<kVectors>([&](std::size_t v) __attribute__((always_inline)) {
          operand[v] = operand_of(input[v]);
        });
        unrolled<Form::kRows>([&](std::size_t r) __attribute__((always_inline)) {
          if (Form::kSum && r == 0) return;
          const Factor by = loaded(factor[r]);
          unrolled<kVectors>([&](std::size_t v) __attribute__((always_inline)) {
            sums[r][v] = add_product(sums[r][v], by, operand[v]);
          });
        });
      }
    }
    unrolled<Form::kRows>([&](std::size_t r) __attribute__((always_inline)) {
      unrolled<kVectors>([&](std::size_t v) __attribute__((always_inline)) {
        std::byte* const to = run.outputs[r] + at + v * kWidth;
        Form::kPast ? store_past(to, sums[r][v]) : store(to, sums[r][v]);
      });
    });
  }
  return at;
}

// What is left, less than a vector.
[[gnu::noinline]] void rows_of_rest(const ProductRun& run, const StoredFactor* factors,
                                    std::size_t at) {
  const std::size_t left = run.end - at;
  for (std::size_t r = 0; r < run.rows; ++r) {
    Vector sum = run.add ? load_some(run.outputs[r] + at, left) : zero();
    for (std::size_t i = 0; i < run.count; ++i) {
      const Vector input = load_some(run.inputs[i] + at, left);
      sum = add_product(sum, loaded(factors[i * run.rows + r]), operand_of(input));
    }
    store_some(run.outputs[r] + at, left, sum);
  }
}

template <class Form>
void rows_loop(const ProductRun& run) {
  StoredFactor factors[kMostInputs * Form::kRows];
  for (std::size_t i = 0; i < run.count; ++i) {
    for (std::size_t r = 0; r < Form::kRows; ++r) {
      factors[i * Form::kRows + r] = stored(run.coefficients[r * run.count + i]);
    }
  }
  std::size_t at = rows_of_blocks<Form, Form::kVectors>(run, factors, run.begin);
  at = rows_of_blocks<Form, 1>(run, factors, at);
  if (at < run.end) rows_of_rest(run, factors, at);
  if constexpr (Form::kPast) await_past();
}

template <std::size_t kRows, bool kSum>
void rows_as(const ProductRun& run) {
  if constexpr (kRows == 1) {
    if (run.add) return rows_loop<RowsForm<kRows, kSum, true, false>>(run);
  }
  return run.past ? rows_loop<RowsForm<kRows, kSum, false, true>>(run)
                  : rows_loop<RowsForm<kRows, kSum, false, false>>(run);
}

template <std::size_t kRows>
void rows_of(const ProductRun& run) {
  bool sum = true;
  for (std::size_t i = 0; i < run.count; ++i) sum = sum && run.coefficients[i] == 1;
  return sum ? rows_as<kRows, true>(run) : rows_as<kRows, false>(run);
}

[[maybe_unused]] void vector_loop(const ProductRun& run) {
  static_assert(kMostRows == 6);
  switch (run.rows) {
    case 1: return rows_of<1>(run);
    case 2: return rows_of<2>(run);
    case 3: return rows_of<3>(run);
    case 4: return rows_of<4>(run);
    case 5: return rows_of<5>(run);
    default: return rows_of<6>(run);
  }
}

}  // namespace
}  // namespace holdfast::erasure
