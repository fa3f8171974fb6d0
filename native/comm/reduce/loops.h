// Loops: the reduction loops, as templates. Each instruction level compiles its own copy, with
// internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "comm/reduce/arithmetic.h"
#include "comm/reduce/kernels.h"
#include "comm/reduce/lanes.h"

namespace holdfast::comm {
namespace {

// An element at any address: slices of a stream and offsets in a caller's buffer need not be
// aligned.
template <class T>
struct [[gnu::packed]] Loose {
  T value;
};

template <class Op>
inline constexpr bool kIsLogical =
    std::is_same_v<Op, Land> || std::is_same_v<Op, Lor> || std::is_same_v<Op, Lxor>;

#if defined(HOLDFAST_LANES)
template <class Op>
Lanes combine_lanes(Lanes a, Lanes b) {
  if constexpr (std::is_same_v<Op, Sum>) return add_lanes(a, b);
  if constexpr (std::is_same_v<Op, Product>) return multiply_lanes(a, b);
  if constexpr (std::is_same_v<Op, Min>) return least_lanes(a, b);
  if constexpr (std::is_same_v<Op, Max>) return greatest_lanes(a, b);
}

#if defined(__AVX512F__)
template <class Op>
Pair combine_lanes(const Pair& a, const Pair& b) {
  return {combine_lanes<Op>(a.lower, b.lower), combine_lanes<Op>(a.upper, b.upper)};
}
#endif

// Reduces as many whole vectors as there are; returns the number of elements reduced.
template <class T, class Op>
std::uint64_t reduce_lanes(void* dst, const void* lhs, const void* rhs, std::uint64_t count) {
  auto* out = static_cast<Loose<T>*>(dst);
  const auto* a = static_cast<const Loose<T>*>(lhs);
  const auto* b = static_cast<const Loose<T>*>(rhs);
  std::uint64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    const auto x = load_lanes<T>(a + i);
    const auto y = load_lanes<T>(b + i);
    Storing<T>::store(out + i, combine_lanes<Op>(x, y));
  }
  return i;
}
#endif

template <class T, class Op>
void reduce_loop(void* dst, const void* lhs, const void* rhs, std::uint64_t count) {
  auto* out = static_cast<Loose<T>*>(dst);
  const auto* a = static_cast<const Loose<T>*>(lhs);
  const auto* b = static_cast<const Loose<T>*>(rhs);
  std::uint64_t i = 0;
#if defined(HOLDFAST_LANES)
  if constexpr (Narrow<T> && kHasLanes<T> && !kIsLogical<Op>)
    i = reduce_lanes<T, Op>(dst, lhs, rhs, count);
#endif
  for (; i < count; ++i) {
    const T x = a[i].value;
    const T y = b[i].value;
    out[i].value = combine<Op>(x, y);
  }
}

template <class T>
void divide_loop(void* data, std::uint64_t count, std::uint32_t divisor) {
  auto* x = static_cast<Loose<T>*>(data);
  for (std::uint64_t i = 0; i < count; ++i) {
    const T value = x[i].value;
    x[i].value = divided(value, divisor);
  }
}

// A divisor treats a complex number as two reals.
template <class T>
void divide_pairs(void* data, std::uint64_t count, std::uint32_t divisor) {
  divide_loop<T>(data, 2 * count, divisor);
}

template <class T>
ReduceKernel numeric_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return reduce_loop<T, Sum>;
    case ReduceOp::kProduct: return reduce_loop<T, Product>;
    case ReduceOp::kMin: return reduce_loop<T, Min>;
    case ReduceOp::kMax: return reduce_loop<T, Max>;
    case ReduceOp::kLand: return reduce_loop<T, Land>;
    case ReduceOp::kLor: return reduce_loop<T, Lor>;
    case ReduceOp::kLxor: return reduce_loop<T, Lxor>;
    default: return nullptr;
  }
}

template <class T>
ReduceKernel bitwise_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::kBand: return reduce_loop<T, Band>;
    case ReduceOp::kBor: return reduce_loop<T, Bor>;
    case ReduceOp::kBxor: return reduce_loop<T, Bxor>;
    default: return nullptr;
  }
}

template <class T>
ReduceKernel integer_kernel(ReduceOp op) {
  const ReduceKernel bitwise = bitwise_kernel<T>(op);
  return bitwise != nullptr ? bitwise : numeric_kernel<T>(op);
}

ReduceKernel bool_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return reduce_loop<Bool, Sum>;
    case ReduceOp::kProduct: return reduce_loop<Bool, Product>;
    case ReduceOp::kMin: return reduce_loop<Bool, Min>;
    case ReduceOp::kMax: return reduce_loop<Bool, Max>;
    case ReduceOp::kLand: return reduce_loop<Bool, Land>;
    case ReduceOp::kLor: return reduce_loop<Bool, Lor>;
    case ReduceOp::kLxor: return reduce_loop<Bool, Lxor>;
    default: return bitwise_kernel<Bool>(op);
  }
}

template <class T>
ReduceKernel complex_kernel(ReduceOp op) {
  if (op == ReduceOp::kSum || op == ReduceOp::kAvg) return reduce_loop<Complex<T>, Sum>;
  return op == ReduceOp::kProduct ? reduce_loop<Complex<T>, Product> : nullptr;
}

[[maybe_unused]] ReduceKernel select_reduce(DType dtype, ReduceOp op) {
  if (!reduce_defined(dtype, op)) return nullptr;
  switch (dtype) {
    case DType::kBool: return bool_kernel(op);
    case DType::kU8: return integer_kernel<std::uint8_t>(op);
    case DType::kI8: return integer_kernel<std::int8_t>(op);
    case DType::kU16: return integer_kernel<std::uint16_t>(op);
    case DType::kI16: return integer_kernel<std::int16_t>(op);
    case DType::kU32: return integer_kernel<std::uint32_t>(op);
    case DType::kI32: return integer_kernel<std::int32_t>(op);
    case DType::kU64: return integer_kernel<std::uint64_t>(op);
    case DType::kI64: return integer_kernel<std::int64_t>(op);
    case DType::kF16: return numeric_kernel<Half>(op);
    case DType::kBF16: return numeric_kernel<Bfloat>(op);
    case DType::kF8E4M3: return numeric_kernel<Float8E4M3>(op);
    case DType::kF8E5M2: return numeric_kernel<Float8E5M2>(op);
    case DType::kF32: return numeric_kernel<float>(op);
    case DType::kF64: return numeric_kernel<double>(op);
    case DType::kC64: return complex_kernel<float>(op);
    case DType::kC128: return complex_kernel<double>(op);
    default: break;  // unusual.h has these
  }
  return nullptr;
}

[[maybe_unused]] DivideKernel select_divide(DType dtype) {
  switch (dtype) {
    case DType::kU8: return divide_loop<std::uint8_t>;
    case DType::kI8: return divide_loop<std::int8_t>;
    case DType::kU16: return divide_loop<std::uint16_t>;
    case DType::kI16: return divide_loop<std::int16_t>;
    case DType::kU32: return divide_loop<std::uint32_t>;
    case DType::kI32: return divide_loop<std::int32_t>;
    case DType::kU64: return divide_loop<std::uint64_t>;
    case DType::kI64: return divide_loop<std::int64_t>;
    case DType::kF16: return divide_loop<Half>;
    case DType::kBF16: return divide_loop<Bfloat>;
    case DType::kF8E4M3: return divide_loop<Float8E4M3>;
    case DType::kF8E5M2: return divide_loop<Float8E5M2>;
    case DType::kF32: return divide_loop<float>;
    case DType::kF64: return divide_loop<double>;
    case DType::kC64: return divide_pairs<float>;
    case DType::kC128: return divide_pairs<double>;
    default: return nullptr;
  }
}

}  // namespace
}  // namespace holdfast::comm
