#include "comm/reduce/unusual.h"

#include <cstring>
#include <type_traits>

#include "comm/reduce/arithmetic.h"

namespace holdfast::comm {
namespace {

// Elements may lie at any address, as in loops.h.
template <class T>
T load(const void* from, std::uint64_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(from) + i * sizeof(T), sizeof(T));
  return value;
}

// The bytes of a long double that count; x86 has ten in a room of sixteen.
#if defined(__x86_64__)
constexpr std::size_t kLongBytes = 10;
#else
constexpr std::size_t kLongBytes = sizeof(long double);
#endif

void put(std::byte* to, long double value) {
  std::memset(to, 0, sizeof value);
  std::memcpy(to, &value, kLongBytes);
}

void put(std::byte* to, const Complex<long double>& value) {
  put(to, value.re);
  put(to + sizeof(long double), value.im);
}

template <class T, class Op>
void long_loop(void* dst, const void* lhs, const void* rhs, std::uint64_t count) {
  auto* out = static_cast<std::byte*>(dst);
  for (std::uint64_t i = 0; i < count; ++i) {
    put(out + i * sizeof(T), combine<Op>(load<T>(lhs, i), load<T>(rhs, i)));
  }
}

template <class T>
bool is_nan(T value) {
  return value != value;  // false for integers
}

// Whether the right one of two pairs wins.
template <class T, bool kGreatest>
bool right_wins(const IndexedValue<T>& left, const IndexedValue<T>& right) {
  if (is_nan(left.value) != is_nan(right.value)) return is_nan(right.value);
  if (left.value < right.value) return kGreatest;
  if (right.value < left.value) return !kGreatest;
  return right.index < left.index;
}

template <class T, bool kGreatest>
void pair_loop(void* dst, const void* lhs, const void* rhs, std::uint64_t count) {
  constexpr std::size_t kBytes = sizeof(IndexedValue<T>);
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool right =
        right_wins<T, kGreatest>(load<IndexedValue<T>>(lhs, i), load<IndexedValue<T>>(rhs, i));
    const auto* winner = static_cast<const std::byte*>(right ? rhs : lhs) + i * kBytes;
    std::memmove(static_cast<std::byte*>(dst) + i * kBytes, winner, kBytes);
  }
}

template <class T>
ReduceKernel pair_kernel(ReduceOp op) {
  return op == ReduceOp::kMaxLoc ? pair_loop<T, true> : pair_loop<T, false>;
}

ReduceKernel long_kernel(ReduceOp op) {
  using T = long double;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return long_loop<T, Sum>;
    case ReduceOp::kProduct: return long_loop<T, Product>;
    case ReduceOp::kMin: return long_loop<T, Min>;
    case ReduceOp::kMax: return long_loop<T, Max>;
    case ReduceOp::kLand: return long_loop<T, Land>;
    case ReduceOp::kLor: return long_loop<T, Lor>;
    case ReduceOp::kLxor: return long_loop<T, Lxor>;
    default: return nullptr;
  }
}

// A divisor treats a complex number as two reals.
template <int kParts>
void long_divide(void* data, std::uint64_t count, std::uint32_t divisor) {
  auto* at = static_cast<std::byte*>(data);
  for (std::uint64_t i = 0; i < kParts * count; ++i) {
    put(at + i * sizeof(long double), divided(load<long double>(data, i), divisor));
  }
}

}  // namespace

ReduceKernel unusual_reduce_kernel(DType dtype, ReduceOp op) {
  if (!reduce_defined(dtype, op)) return nullptr;
  switch (dtype) {
    case DType::kLongDouble: return long_kernel(op);
    case DType::kLongComplex:
      return op == ReduceOp::kProduct ? long_loop<Complex<long double>, Product>
                                      : long_loop<Complex<long double>, Sum>;
    case DType::kF32I32: return pair_kernel<float>(op);
    case DType::kF64I32: return pair_kernel<double>(op);
    case DType::kI64I32: return pair_kernel<std::int64_t>(op);
    case DType::kI32I32: return pair_kernel<std::int32_t>(op);
    case DType::kI16I32: return pair_kernel<std::int16_t>(op);
    case DType::kLongDoubleI32: return pair_kernel<long double>(op);
    default: return nullptr;
  }
}

DivideKernel unusual_divide_kernel(DType dtype) {
  if (dtype == DType::kLongDouble) return long_divide<1>;
  return dtype == DType::kLongComplex ? long_divide<2> : nullptr;
}

}  // namespace holdfast::comm
