// Arithmetic: what each operator does to two elements. The loops of every instruction level and the
// device kernels share this one definition. It has internal linkage, as in small_floats.h, and is
// constexpr so that device code may call it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/small_floats.h"

namespace holdfast::comm {
namespace {

struct Bool {
  std::uint8_t bits;
};
template <class T>
struct Complex {
  T re;
  T im;
};

template <class T>
concept Narrow = requires(T x) {
  x.widen();
};

struct Sum {};
struct Product {};
struct Min {};
struct Max {};
struct Band {};
struct Bor {};
struct Bxor {};
struct Land {};
struct Lor {};
struct Lxor {};

// Wrapping arithmetic: signed overflow is computed unsigned; types below int would promote to
// signed.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;

template <class T>
constexpr T arithmetic(Sum, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  } else {
    return a + b;
  }
}
template <class T>
constexpr T arithmetic(Product, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  } else {
    return a * b;
  }
}
// NaN wins: comparisons with NaN are false, so `a != a` tests for it.
template <class T>
constexpr T arithmetic(Min, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return (a < b || a != a) ? a : b;
  } else {
    return a < b ? a : b;
  }
}
template <class T>
constexpr T arithmetic(Max, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return (a > b || a != a) ? a : b;
  } else {
    return a > b ? a : b;
  }
}
template <class T>
constexpr T arithmetic(Band, T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
constexpr T arithmetic(Bor, T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
constexpr T arithmetic(Bxor, T a, T b) {
  return static_cast<T>(a ^ b);
}
// NaN is not zero, so it counts as true. Both sides are always looked at: the loops stay free of
// branches.
template <class T>
constexpr T arithmetic(Land, T a, T b) {
  return static_cast<T>(static_cast<int>(a != T{}) & static_cast<int>(b != T{}));
}
template <class T>
constexpr T arithmetic(Lor, T a, T b) {
  return static_cast<T>(static_cast<int>(a != T{}) | static_cast<int>(b != T{}));
}
template <class T>
constexpr T arithmetic(Lxor, T a, T b) {
  return static_cast<T>(static_cast<int>(a != T{}) ^ static_cast<int>(b != T{}));
}

template <class Op, class T>
constexpr T combine(T a, T b) {
  if constexpr (Narrow<T>) {
    return T::narrow(arithmetic(Op{}, a.widen(), b.widen()));
  } else {
    return arithmetic(Op{}, a, b);
  }
}

// A sum divided by the number of its contributors. Integers are rounded towards zero, as NCCL does.
template <class T>
constexpr T divided(T value, std::uint32_t divisor) {
  if constexpr (Narrow<T>) {
    return T::narrow(value.widen() / static_cast<float>(divisor));
  } else if constexpr (std::is_integral_v<T>) {
    // The divisor need not fit into T.
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
  } else if constexpr (std::is_floating_point_v<T>) {
    return value / static_cast<T>(divisor);
  } else {
    return value;  // a type whose kernels are never asked for an average
  }
}

template <class Op>
constexpr Bool combine(Bool a, Bool b) {
  const int x = a.bits != 0 ? 1 : 0;
  const int y = b.bits != 0 ? 1 : 0;
  constexpr bool kOr = std::is_same_v<Op, Sum> || std::is_same_v<Op, Max> ||
                       std::is_same_v<Op, Bor> || std::is_same_v<Op, Lor>;
  constexpr bool kXor = std::is_same_v<Op, Bxor> || std::is_same_v<Op, Lxor>;
  const int result = kOr ? x | y : kXor ? x ^ y : x & y;
  return {static_cast<std::uint8_t>(result)};
}

template <class Op, class T>
constexpr Complex<T> combine(Complex<T> a, Complex<T> b) {
  if constexpr (std::is_same_v<Op, Sum>) {
    return {a.re + b.re, a.im + b.im};
  } else {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
}

}  // namespace
}  // namespace holdfast::comm
