// Logical operators, long double, and pairs of a value and an index, against plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/small_floats.h"
#include "comm/reduce/kernels.h"

namespace holdfast::comm {
namespace {

template <class T>
std::vector<T> reduced(DType dtype, ReduceOp op, std::vector<T> a, const std::vector<T>& b) {
  for (const CpuLevel level : cpu_levels()) {
    std::vector<T> out(a.size());
    const ReduceKernel kernel = reduce_kernel(dtype, op, level);
    REQUIRE((kernel != nullptr));
    kernel(out.data(), a.data(), b.data(), a.size());
    // In place, on either side.
    std::vector<T> left = a;
    kernel(left.data(), left.data(), b.data(), a.size());
    std::vector<T> right = b;
    kernel(right.data(), a.data(), right.data(), a.size());
    CHECK(std::memcmp(out.data(), left.data(), out.size() * sizeof(T)) == 0);
    CHECK(std::memcmp(out.data(), right.data(), out.size() * sizeof(T)) == 0);
    if (level == cpu_levels().back()) return out;
  }
  return {};
}

// 0 and everything else, long enough for every vector and its remainder.
template <class T>
void check_logical(DType dtype, const std::vector<T>& truths) {
  CAPTURE(dtype_name(dtype));
  std::vector<T> a;
  std::vector<T> b;
  for (std::size_t i = 0; i < 211; ++i) {
    a.push_back(i % 2 == 0 ? T{} : truths[i % truths.size()]);
    b.push_back(i % 4 < 2 ? T{} : truths[(i / 2) % truths.size()]);
  }
  const auto all = reduced(dtype, ReduceOp::kLand, a, b);
  const auto any = reduced(dtype, ReduceOp::kLor, a, b);
  const auto one = reduced(dtype, ReduceOp::kLxor, a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool x = a[i] != T{};
    const bool y = b[i] != T{};
    CHECK(all[i] == static_cast<T>(x && y));
    CHECK(any[i] == static_cast<T>(x || y));
    CHECK(one[i] == static_cast<T>(x != y));
  }
}

TEST_CASE("logical operators give 0 or 1, and look at nothing but zero") {
  check_logical<std::uint8_t>(DType::kU8, {1, 2, 128, 255});
  check_logical<std::int8_t>(DType::kI8, {1, -1, -128, 64});
  check_logical<std::uint16_t>(DType::kU16, {1, 0x100, 0x8000});
  check_logical<std::int16_t>(DType::kI16, {1, -1, 0x100});
  check_logical<std::uint32_t>(DType::kU32, {1, 0x10000, 0x80000000U});
  check_logical<std::int32_t>(DType::kI32, {1, -1, 1 << 30});
  check_logical<std::uint64_t>(DType::kU64, {1, 1ULL << 32, 1ULL << 63});
  check_logical<std::int64_t>(DType::kI64, {1, -1, std::int64_t{1} << 40});
  check_logical<std::uint8_t>(DType::kBool, {1, 2, 255});
  check_logical<float>(DType::kF32, {1.0F, -0.5F, 1e-45F, INFINITY});
  check_logical<double>(DType::kF64, {1.0, -0.5, 5e-324, INFINITY});
  check_logical<long double>(DType::kLongDouble, {1.0L, -0.5L, 1e-4940L});
}

TEST_CASE("of logical operators a negative zero is false, and not a number is true") {
  const std::vector<float> a{-0.0F, NAN, -0.0F, NAN};
  const std::vector<float> b{1.0F, 1.0F, 0.0F, 0.0F};
  CHECK(reduced(DType::kF32, ReduceOp::kLand, a, b) == std::vector<float>{0, 1, 0, 0});
  CHECK(reduced(DType::kF32, ReduceOp::kLor, a, b) == std::vector<float>{1, 1, 0, 1});
  CHECK(reduced(DType::kF32, ReduceOp::kLxor, a, b) == std::vector<float>{1, 0, 0, 1});
  const auto half = [](float x) { return Half::narrow(x).bits; };
  const std::vector<std::uint16_t> x{half(-0.0F), half(3.0F), 0x0001, 0x7e00};
  const std::vector<std::uint16_t> y{half(1.0F), half(-2.0F), 0x8001, half(0.0F)};
  CHECK(reduced(DType::kF16, ReduceOp::kLand, x, y) ==
        std::vector<std::uint16_t>{half(0), half(1), half(1), half(0)});
}

template <class T>
IndexedValue<T> pair(T value, std::int32_t index) {
  IndexedValue<T> result;
  std::memset(&result, 0, sizeof result);
  result.value = value;
  result.index = index;
  return result;
}

// Which one wins: 0 the left one, 1 the right one.
template <class T>
void check_winner(DType dtype, ReduceOp op, IndexedValue<T> a, IndexedValue<T> b, int winner) {
  CAPTURE(dtype_name(dtype));
  CAPTURE(reduce_op_name(op));
  const auto out = reduced<IndexedValue<T>>(dtype, op, {a}, {b});
  const IndexedValue<T>& right = winner == 0 ? a : b;
  CHECK(std::memcmp(out.data(), &right, sizeof right) == 0);
}

template <class T>
void check_pairs(DType dtype) {
  using enum ReduceOp;
  REQUIRE(dtype_bytes(dtype) == sizeof(IndexedValue<T>));
  for (const bool greatest : {true, false}) {
    const ReduceOp op = greatest ? kMaxLoc : kMinLoc;
    check_winner<T>(dtype, op, pair<T>(1, 7), pair<T>(2, 3), greatest ? 1 : 0);
    check_winner<T>(dtype, op, pair<T>(2, 3), pair<T>(1, 7), greatest ? 0 : 1);
    check_winner<T>(dtype, op, pair<T>(5, 3), pair<T>(5, 2), 1);
    check_winner<T>(dtype, op, pair<T>(5, 2), pair<T>(5, 3), 0);
    check_winner<T>(dtype, op, pair<T>(5, -1), pair<T>(5, 0), 0);
    if constexpr (std::is_floating_point_v<T>) {
      const T nan = std::numeric_limits<T>::quiet_NaN();
      check_winner<T>(dtype, op, pair<T>(nan, 9), pair<T>(1, 0), 0);
      check_winner<T>(dtype, op, pair<T>(1, 0), pair<T>(nan, 9), 1);
      check_winner<T>(dtype, op, pair<T>(nan, 9), pair<T>(nan, 8), 1);
      check_winner<T>(dtype, op, pair<T>(T{-0.0}, 4), pair<T>(T{0.0}, 3), 1);
    }
  }
}

TEST_CASE("the better value wins, of equal ones the lower index, and NaN over all") {
  check_pairs<float>(DType::kF32I32);
  check_pairs<double>(DType::kF64I32);
  check_pairs<std::int64_t>(DType::kI64I32);
  check_pairs<std::int32_t>(DType::kI32I32);
  check_pairs<std::int16_t>(DType::kI16I32);
  check_pairs<long double>(DType::kLongDoubleI32);
}

TEST_CASE("pairs have the sizes of C's structs") {
  struct DoubleInt {
    double value;
    int index;
  };
  struct ShortInt {
    short value;  // NOLINT: what MPI_SHORT_INT is made of
    int index;
  };
  struct LongInt {
    long value;  // NOLINT: what MPI_LONG_INT is made of
    int index;
  };
  CHECK(dtype_bytes(DType::kF64I32) == sizeof(DoubleInt));
  CHECK(dtype_bytes(DType::kI16I32) == sizeof(ShortInt));
  CHECK(dtype_bytes(DType::kI64I32) == sizeof(LongInt));
  CHECK(dtype_bytes(DType::kLongDouble) == sizeof(long double));
}

TEST_CASE("long double keeps all its bits, and its padding is zero") {
  const long double tiny = std::numeric_limits<long double>::epsilon();
  const std::vector<long double> a{1.0L, 3.0L, -2.0L, 1e4000L};
  const std::vector<long double> b{tiny, tiny, 5.0L, 10.0L};
  const auto sum = reduced(DType::kLongDouble, ReduceOp::kSum, a, b);
  const auto product = reduced(DType::kLongDouble, ReduceOp::kProduct, a, b);
  const auto least = reduced(DType::kLongDouble, ReduceOp::kMin, a, b);
  const auto most = reduced(DType::kLongDouble, ReduceOp::kMax, a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(sum[i] == a[i] + b[i]);
    CHECK(product[i] == a[i] * b[i]);
    CHECK(least[i] == std::min(a[i], b[i]));
    CHECK(most[i] == std::max(a[i], b[i]));
  }
  CHECK(sum[0] > 1.0L);
#if defined(__x86_64__)
  for (const long double& x : sum) {
    std::byte bytes[sizeof x];
    std::memcpy(bytes, &x, sizeof x);
    for (std::size_t i = 10; i < sizeof x; ++i) CHECK(bytes[i] == std::byte{0});
  }
#endif
  std::vector<long double> shared{9.0L, 10.0L};
  divide_kernel(DType::kLongDouble)(shared.data(), 2, 4);
  CHECK(shared == std::vector<long double>{2.25L, 2.5L});
}

TEST_CASE("complex numbers of long double are added and multiplied as such") {
  // (1 + 2i), (3 + 4i)
  const std::vector<long double> a{1, 2};
  const std::vector<long double> b{3, 4};
  std::vector<long double> out(2);
  reduce_kernel(DType::kLongComplex, ReduceOp::kSum)(out.data(), a.data(), b.data(), 1);
  CHECK(out == std::vector<long double>{4, 6});
  reduce_kernel(DType::kLongComplex, ReduceOp::kProduct)(out.data(), a.data(), b.data(), 1);
  CHECK(out == std::vector<long double>{-5, 10});
  CHECK_FALSE(reduce_defined(DType::kLongComplex, ReduceOp::kMax));
  CHECK_FALSE(reduce_defined(DType::kF64I32, ReduceOp::kSum));
  CHECK_FALSE(reduce_defined(DType::kF64, ReduceOp::kMaxLoc));
  CHECK_FALSE(reduce_defined(DType::kC64, ReduceOp::kLand));
}

TEST_CASE("every dtype and operator has a name of its own") {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(dtype_name(static_cast<DType>(i)));
  for (int i = 0; i < kReduceOpCount; ++i) {
    names.emplace_back(reduce_op_name(static_cast<ReduceOp>(i)));
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK_FALSE(names.front().empty());
}

}  // namespace
}  // namespace holdfast::comm
