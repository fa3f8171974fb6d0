// Weighing: the arithmetic of weighted averages. Each rank's input is scaled by its weight as a
// part of the largest weight, rounded to its dtype, and summed up as any input; the last sum is
// divided by the sum of the scales. Equal weights thus give the bits of a plain average, and sums
// are no larger than those of a plain average, whatever weights count.
//
// Scalar code for all instruction levels, whose bits it therefore has: the memory's speed.
// Why: docs/decisions/0177-weights-are-agreed-in-the-run.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/short_list.h"
#include "comm/reduce/reducer.h"

namespace holdfast::comm {

// dst[i] = src[i] * by, rounded to the dtype, and to float32 first where that is narrower; by 0
// gives 0, whatever src holds, and by 1 gives the bits of src. dst may be the same memory as src.
using ScaleKernel = void (*)(void* dst, const void* src, std::uint64_t count, double by);
// data[i] = data[i] / total, rounded likewise.
using ShareKernel = void (*)(void* data, std::uint64_t count, double total);

// Whether averages of such elements can be weighted: floats of up to 8 bytes, and complex numbers
// of two of them. Integers would lose more to rounding than weights give.
bool takes_weights(DType dtype);
// The names of those dtypes.
std::string weighable_dtypes();

// Only for dtypes that take weights.
ScaleKernel scale_kernel(DType dtype);
ShareKernel share_kernel(DType dtype);

// Finite, and not negative.
bool is_weight(double value);

// What weights mean to one rank of a run.
struct RankWeighing {
  double scale = 1;  // of its own input
  double total = 1;  // of the scales of all ranks in the run
  // Whether a sum has to be divided. Where nobody has a weight, all inputs count as zeros, and so
  // does their average.
  bool divides() const { return total != 1 && total != 0; }
};

// The scales of the ranks of a run, by their weights. What is no weight counts as 0.
class WeightScales {
 public:
  WeightScales() = default;
  explicit WeightScales(std::span<const double> weights);

  double of(int rank) const { return scales_[static_cast<std::size_t>(rank)]; }
  double total() const { return total_; }
  RankWeighing weighing_of(int rank) const { return {of(rank), total_}; }

 private:
  ShortList<double, 8> scales_;
  double total_ = 0;
};

struct ScaledOperand {
  const std::byte* data = nullptr;
  double by = 1;
};

// dst[i] = lhs[i] op rhs[i], of operands that are scaled first; dst as for a Reducer.
void combine_scaled(const Reducer& reducer, DType dtype, std::byte* dst, const ScaledOperand& lhs,
                    const ScaledOperand& rhs, std::uint64_t count);

}  // namespace holdfast::comm
