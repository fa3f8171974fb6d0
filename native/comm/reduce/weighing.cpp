#include "comm/reduce/weighing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/copy.h"
#include "base/small_floats.h"

namespace holdfast::comm {
namespace {

// Bytes of an operand that are scaled at a time: they stay in the first-level cache.
constexpr std::size_t kScaledBytes = 4 * 1024;

// An element at any address.
template <class T>
struct [[gnu::packed]] Unaligned {
  T value;
};

template <class T>
double widened(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    return value.widen();
  }
}

template <class T>
T narrowed(double value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    return T::narrow(static_cast<float>(value));
  }
}

template <class T, std::uint64_t kParts>
void scale_loop(void* dst, const void* src, std::uint64_t count, double by) {
  count *= kParts;
  if (by == 1) {
    if (dst != src) copy_bytes(dst, src, count * sizeof(T));
    return;
  }
  if (by == 0) {
    if (count > 0) std::memset(dst, 0, count * sizeof(T));
    return;
  }
  auto* to = static_cast<Unaligned<T>*>(dst);
  const auto* from = static_cast<const Unaligned<T>*>(src);
  for (std::uint64_t i = 0; i < count; ++i) {
    const T value = from[i].value;
    to[i].value = narrowed<T>(widened(value) * by);
  }
}

template <class T, std::uint64_t kParts>
void share_loop(void* data, std::uint64_t count, double total) {
  auto* x = static_cast<Unaligned<T>*>(data);
  for (std::uint64_t i = 0; i < count * kParts; ++i) {
    const T value = x[i].value;
    x[i].value = narrowed<T>(widened(value) / total);
  }
}

struct WeighingKernels {
  ScaleKernel scale = nullptr;
  ShareKernel share = nullptr;
};

template <class T, std::uint64_t kParts = 1>
constexpr WeighingKernels kWeighing{scale_loop<T, kParts>, share_loop<T, kParts>};

WeighingKernels kernels_of(DType dtype) {
  switch (dtype) {
    case DType::kF16: return kWeighing<Half>;
    case DType::kBF16: return kWeighing<Bfloat>;
    case DType::kF8E4M3: return kWeighing<Float8E4M3>;
    case DType::kF8E5M2: return kWeighing<Float8E5M2>;
    case DType::kF32: return kWeighing<float>;
    case DType::kF64: return kWeighing<double>;
    case DType::kC64: return kWeighing<float, 2>;
    case DType::kC128: return kWeighing<double, 2>;
    default: return {};
  }
}

}  // namespace

bool takes_weights(DType dtype) { return kernels_of(dtype).scale != nullptr; }

std::string weighable_dtypes() {
  std::string names;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (takes_weights(dtype)) names += (names.empty() ? "" : ", ") + std::string(dtype_name(dtype));
  }
  return names;
}

ScaleKernel scale_kernel(DType dtype) {
  CHECK(takes_weights(dtype));
  return kernels_of(dtype).scale;
}

ShareKernel share_kernel(DType dtype) {
  CHECK(takes_weights(dtype));
  return kernels_of(dtype).share;
}

bool is_weight(double value) { return std::isfinite(value) && value >= 0; }

WeightScales::WeightScales(std::span<const double> weights) {
  double largest = 0;
  for (const double weight : weights) {
    if (is_weight(weight)) largest = std::max(largest, weight);
  }
  for (const double weight : weights) {
    scales_.push_back(largest > 0 && is_weight(weight) ? weight / largest : 0);
    total_ += scales_[scales_.size() - 1];
  }
}

void combine_scaled(const Reducer& reducer, DType dtype, std::byte* dst, const ScaledOperand& lhs,
                    const ScaledOperand& rhs, std::uint64_t count) {
  if (lhs.by == 1 && rhs.by == 1) return reducer(dst, lhs.data, rhs.data, count);
  const ScaleKernel scale = scale_kernel(dtype);
  const std::uint64_t element = dtype_bytes(dtype);
  const std::uint64_t most = kScaledBytes / element;
  alignas(64) std::byte room[2][kScaledBytes];
  for (std::uint64_t at = 0; at < count; at += most) {
    const std::uint64_t n = std::min(most, count - at);
    const auto ready = [&](const ScaledOperand& operand, std::byte* scaled) {
      const std::byte* from = operand.data + at * element;
      if (operand.by == 1) return from;
      scale(scaled, from, n, operand.by);
      return static_cast<const std::byte*>(scaled);
    };
    reducer(dst + at * element, ready(lhs, room[0]), ready(rhs, room[1]), n);
  }
}

}  // namespace holdfast::comm
