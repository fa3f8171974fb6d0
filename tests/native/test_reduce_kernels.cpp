// The kernels against their scalar references, and the references against plain double arithmetic.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "comm/reduce/kernels.h"

namespace holdfast::comm {
namespace {

std::vector<std::byte> random_bytes(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> out(bytes);
  for (std::byte& b : out) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    b = static_cast<std::byte>(seed >> 56);
  }
  return out;
}

// Random bits are NaN now and then; which NaN comes out is nobody's promise, that one does is.
template <class F>
bool same_bits_or_both_nan(const void* a, const void* b) {
  F x;
  F y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  return std::memcmp(a, b, sizeof x) == 0 || (std::isnan(x) && std::isnan(y));
}

bool same(DType dtype, const std::byte* a, const std::byte* b) {
  switch (dtype) {
    case DType::kLongDouble: return same_bits_or_both_nan<long double>(a, b);
    case DType::kLongComplex:
      return same_bits_or_both_nan<long double>(a, b) &&
             same_bits_or_both_nan<long double>(a + sizeof(long double), b + sizeof(long double));
    case DType::kF32: return same_bits_or_both_nan<float>(a, b);
    case DType::kF64: return same_bits_or_both_nan<double>(a, b);
    case DType::kC64:
      return same_bits_or_both_nan<float>(a, b) && same_bits_or_both_nan<float>(a + 4, b + 4);
    case DType::kC128:
      return same_bits_or_both_nan<double>(a, b) && same_bits_or_both_nan<double>(a + 8, b + 8);
    default: return std::memcmp(a, b, dtype_bytes(dtype)) == 0;
  }
}

bool same_all(DType dtype, const std::byte* a, const std::byte* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!same(dtype, a + i * dtype_bytes(dtype), b + i * dtype_bytes(dtype))) return false;
  }
  return true;
}

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 67, 1000};

void compare_all(CpuLevel level) {
  CAPTURE(cpu_level_name(level));
  for (int d = 0; d < kDTypeCount; ++d) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<ReduceOp>(o);
      CAPTURE(dtype_name(dtype));
      CAPTURE(reduce_op_name(op));
      const ReduceKernel fast = reduce_kernel(dtype, op, level);
      const ReduceKernel slow = reference_reduce_kernel(dtype, op);
      REQUIRE((fast != nullptr) == reduce_defined(dtype, op));
      REQUIRE((slow != nullptr) == reduce_defined(dtype, op));
      if (fast == nullptr) continue;
      const std::size_t element = dtype_bytes(dtype);
      for (const std::size_t count : kCounts) {
        const auto a = random_bytes(count * element + 3, count + 1);
        const auto b = random_bytes(count * element + 3, count + 99);
        std::vector<std::byte> want(count * element);
        slow(want.data(), a.data() + 1, b.data() + 3, count);
        std::vector<std::byte> got(count * element + 1);
        fast(got.data() + 1, a.data() + 1, b.data() + 3, count);
        CHECK(same_all(dtype, got.data() + 1, want.data(), count));
        auto left = a;
        fast(left.data() + 1, left.data() + 1, b.data() + 3, count);
        CHECK(same_all(dtype, left.data() + 1, want.data(), count));
        auto right = b;
        fast(right.data() + 3, a.data() + 1, right.data() + 3, count);
        CHECK(same_all(dtype, right.data() + 3, want.data(), count));
      }
    }
  }
}

TEST_CASE("every kernel gives the reference's result at any length, offset and aliasing") {
  for (const CpuLevel level : cpu_levels()) compare_all(level);
}

TEST_CASE("the fastest level is the last that this processor runs, and what runs unless asked") {
  CHECK(cpu_levels().front() == CpuLevel::kReference);
  CHECK(cpu_levels().back() == best_cpu_level());
  for (int i = 0; i < kCpuLevelCount; ++i) {
    const auto level = static_cast<CpuLevel>(i);
    CHECK(has_cpu_level(level) == (std::ranges::count(cpu_levels(), level) == 1));
  }
  CHECK((reduce_kernel(DType::kF32, ReduceOp::kSum) ==
         reduce_kernel(DType::kF32, ReduceOp::kSum, best_cpu_level())));
}

struct Format {
  DType dtype;
  int exponent;
  int mantissa;
  bool finite;
};

const std::vector<Format> kFormats{{DType::kF16, 5, 10, false},
                                   {DType::kBF16, 8, 7, false},
                                   {DType::kF8E5M2, 5, 2, false},
                                   {DType::kF8E4M3, 4, 3, true}};

double value_of(const Format& f, unsigned bits) {
  const unsigned mantissa = bits & ((1U << f.mantissa) - 1);
  const unsigned exponent = (bits >> f.mantissa) & ((1U << f.exponent) - 1);
  const bool negative = ((bits >> (f.mantissa + f.exponent)) & 1) != 0;
  const unsigned top = (1U << f.exponent) - 1;
  const int bias = (1 << (f.exponent - 1)) - 1;
  double value = 0;
  if (exponent == top && (!f.finite || mantissa == (1U << f.mantissa) - 1)) {
    value = !f.finite && mantissa == 0 ? std::numeric_limits<double>::infinity()
                                       : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - f.mantissa);
  } else {
    value =
        std::ldexp((1U << f.mantissa) + mantissa, static_cast<int>(exponent) - bias - f.mantissa);
  }
  return negative ? -value : value;
}

// The format's value nearest to x, ties to even, by looking at all of them.
double nearest(const Format& f, double x, const std::vector<double>& sorted_positive) {
  const double magnitude = std::fabs(x);
  std::size_t best = 0;
  for (std::size_t i = 1; i < sorted_positive.size(); ++i) {
    const double gap = std::fabs(sorted_positive[i] - magnitude);
    const double least = std::fabs(sorted_positive[best] - magnitude);
    if (gap < least || (gap == least && i % 2 == 0)) best = i;
  }
  const double largest = sorted_positive.back();
  const double step = largest - sorted_positive[sorted_positive.size() - 2];
  const bool odd_top = (sorted_positive.size() - 1) % 2 == 1;
  const double edge = largest + step / 2;
  if (magnitude > edge || (magnitude == edge && odd_top)) {
    return std::copysign(f.finite ? std::numeric_limits<double>::quiet_NaN()
                                  : std::numeric_limits<double>::infinity(),
                         x);
  }
  return std::copysign(sorted_positive[best], x);
}

void check_sums(const Format& f, unsigned stride) {
  CAPTURE(dtype_name(f.dtype));
  const unsigned all = 1U << (1 + f.exponent + f.mantissa);
  std::vector<double> positive;
  for (unsigned bits = 0; bits < all / 2; ++bits) {
    if (std::isfinite(value_of(f, bits))) positive.push_back(value_of(f, bits));
  }
  const ReduceKernel sum = reference_reduce_kernel(f.dtype, ReduceOp::kSum);
  const std::size_t bytes = dtype_bytes(f.dtype);
  for (unsigned a = 0; a < all; a += stride) {
    for (unsigned b = 0; b < all; b += stride + 2) {
      unsigned out = 0;
      sum(&out, &a, &b, 1);
      const double exact = value_of(f, a) + value_of(f, b);
      const double got = value_of(f, out & (all - 1));
      const double want = std::isfinite(exact)            ? nearest(f, exact, positive)
                          : std::isnan(exact) || f.finite ? std::numeric_limits<double>::quiet_NaN()
                                                          : exact;
      const bool right = std::isnan(want) ? std::isnan(got) : got == want;
      if (!right) {
        CAPTURE(a);
        CAPTURE(b);
        CAPTURE(got);
        CHECK(got == want);
      }
    }
  }
  CHECK(bytes == (all > 256 ? 2 : 1));
}

TEST_CASE("small floats add as real numbers do, rounded once to nearest even") {
  check_sums(kFormats[3], 1);
  check_sums(kFormats[2], 1);
  check_sums(kFormats[0], 2311);
  check_sums(kFormats[1], 2311);
}

TEST_CASE("small floats survive a round trip, every bit pattern") {
  for (const Format& f : kFormats) {
    CAPTURE(dtype_name(f.dtype));
    const ReduceKernel sum = reduce_kernel(f.dtype, ReduceOp::kSum);
    const unsigned all = 1U << (1 + f.exponent + f.mantissa);
    for (unsigned bits = 0; bits < all; ++bits) {
      // Minus zero is the neutral element of addition that keeps both zeros.
      const unsigned zero = all / 2;
      unsigned out = 0;
      sum(&out, &bits, &zero, 1);
      const bool nan = std::isnan(value_of(f, bits));
      if (nan ? !std::isnan(value_of(f, out)) : out != bits) {
        CAPTURE(bits);
        CHECK(out == bits);
      }
    }
  }
}

TEST_CASE("NaN wins in min and max, whichever side it is on") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a{nan, 1.0F, 3.0F};
  const std::vector<float> b{2.0F, nan, 4.0F};
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    std::vector<float> out(3);
    reduce_kernel(DType::kF32, op)(out.data(), a.data(), b.data(), 3);
    CHECK(std::isnan(out[0]));
    CHECK(std::isnan(out[1]));
    CHECK(out[2] == (op == ReduceOp::kMin ? 3.0F : 4.0F));
  }
}

TEST_CASE("integers wrap and bools are logical") {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  const std::int32_t one = 1;
  std::int32_t out = 0;
  reduce_kernel(DType::kI32, ReduceOp::kSum)(&out, &most, &one, 1);
  CHECK(out == std::numeric_limits<std::int32_t>::min());
  const std::uint8_t yes = 7;
  const std::uint8_t no = 0;
  std::uint8_t result = 9;
  reduce_kernel(DType::kBool, ReduceOp::kSum)(&result, &yes, &no, 1);
  CHECK(result == 1);
  reduce_kernel(DType::kBool, ReduceOp::kProduct)(&result, &yes, &no, 1);
  CHECK(result == 0);
}

TEST_CASE("averages divide in the element's own precision") {
  std::vector<double> x{9.0, -3.0};
  divide_kernel(DType::kF64)(x.data(), 2, 3);
  CHECK(x == std::vector<double>{3.0, -1.0});
  CHECK((divide_kernel(DType::kBool) == nullptr));
}

TEST_CASE("averages of integers round towards zero, and more ranks than fit into one divide it") {
  std::vector<std::int32_t> x{7, -7, std::numeric_limits<std::int32_t>::min()};
  divide_kernel(DType::kI32)(x.data(), 3, 2);
  CHECK(x == std::vector<std::int32_t>{3, -3, std::numeric_limits<std::int32_t>::min() / 2});
  std::vector<std::int8_t> small{-128, 127};
  divide_kernel(DType::kI8)(small.data(), 2, 200);
  CHECK(small == std::vector<std::int8_t>{0, 0});
  std::vector<std::uint64_t> large{std::numeric_limits<std::uint64_t>::max()};
  divide_kernel(DType::kU64)(large.data(), 1, 2);
  CHECK(large[0] == std::numeric_limits<std::uint64_t>::max() / 2);
}

}  // namespace
}  // namespace holdfast::comm
