// Reduction on the device. The arithmetic is the same as the CPU's (arithmetic.h). This file moves
// elements: it loads sixteen bytes of each input into registers, once, and stores sixteen bytes.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "comm/reduce/arithmetic.h"
#include "comm/reduce/device_reduce.h"
#include "device/half.h"
#include "device/kernel_sets.h"
#include "device/memory.h"
#include "device/simt.h"

namespace holdfast::comm {
namespace {

using device::bytes_at;
using device::Extent;
using device::kVectorBytes;
using device::Thread;
using device::Vector;

template <class T>
struct Elements {
  T lane[kVectorBytes / sizeof(T)];
};

template <class T, class Op>
HOLDFAST_DEVICE void reduce_element(const ReduceArgument& a, std::uint64_t i) {
  const std::uint64_t at = i * sizeof(T);
  T sum = device::load_loose<T>(bytes_at(a.in[0], at));
  for (std::uint32_t k = 1; k < a.inputs; ++k) {
    sum = combine<Op>(sum, device::load_loose<T>(bytes_at(a.in[k], at)));
  }
  if (a.divisor != 1) sum = divided(sum, a.divisor);
  device::store_loose(bytes_at(a.out, at), sum);
}

template <class T>
HOLDFAST_DEVICE Elements<T> load_elements(const ReduceArgument& a, std::uint32_t k,
                                          std::uint64_t at) {
  const Extent extent{bytes_at(a.in[k], 0), bytes_at(a.in[k], a.count * sizeof(T))};
  return std::bit_cast<Elements<T>>(device::load_any(extent.begin + at, extent));
}

template <class T, class Op>
HOLDFAST_DEVICE void reduce_vector(const ReduceArgument& a, std::uint64_t at) {
  constexpr std::size_t kLanes = kVectorBytes / sizeof(T);
  Elements<T> sum = load_elements<T>(a, 0, at);
  for (std::uint32_t k = 1; k < a.inputs; ++k) {
    const Elements<T> x = load_elements<T>(a, k, at);
    for (std::size_t i = 0; i < kLanes; ++i) sum.lane[i] = combine<Op>(sum.lane[i], x.lane[i]);
  }
  if (a.divisor != 1) {
    for (std::size_t i = 0; i < kLanes; ++i) sum.lane[i] = divided(sum.lane[i], a.divisor);
  }
  device::store_vector(bytes_at(a.out, at), std::bit_cast<Vector>(sum));
}

// Reduces whole vectors of `out`, and the elements before and behind them one by one.
template <class T, class Op>
HOLDFAST_DEVICE void reduce(const Thread& thread, const ReduceArgument& a) {
  constexpr std::uint32_t kLanes = kVectorBytes / sizeof(T);
  const std::uint32_t before =
      (kVectorBytes - device::offset_in_vector(a.out)) % static_cast<std::uint32_t>(kVectorBytes);
  std::uint64_t head = before / sizeof(T);
  if (before % sizeof(T) != 0 || head > a.count) head = a.count;
  const std::uint64_t vectors = (a.count - head) / kLanes;
  for (std::uint64_t v = thread.global(); v < vectors; v += thread.stride()) {
    reduce_vector<T, Op>(a, head * sizeof(T) + v * kVectorBytes);
  }
  const std::uint64_t rest = a.count - vectors * kLanes;
  for (std::uint64_t i = thread.global(); i < rest; i += thread.stride()) {
    reduce_element<T, Op>(a, i < head ? i : i + vectors * kLanes);
  }
}

using U8 = std::uint8_t;
using I8 = std::int8_t;
using U16 = std::uint16_t;
using I16 = std::int16_t;
using U32 = std::uint32_t;
using I32 = std::int32_t;
using U64 = std::uint64_t;
using I64 = std::int64_t;
using F16 = device::Half;
using BF16 = Bfloat;
using F8E4M3 = Float8E4M3;
using F8E5M2 = Float8E5M2;
using F32 = float;
using F64 = double;
using C64 = Complex<float>;
using C128 = Complex<double>;

}  // namespace
}  // namespace holdfast::comm

namespace holdfast {

// There is one kernel per distinct function of bits: sums and products wrap whatever the sign (the
// signed sums are there for averages, whose quotients have one), a bitwise operator treats any
// integer as bytes, and a complex sum is two real ones (device_reduce.cpp maps each dtype to its
// kernel).
#define ONE(KERNEL, Op, Type) \
  KERNEL(holdfast_reduce_##Op##_##Type, comm::reduce<comm::Type, comm::Op>)
#define ARITHMETIC(KERNEL, Type) ONE(KERNEL, Sum, Type) ONE(KERNEL, Product, Type)
#define ORDER(KERNEL, Type) ONE(KERNEL, Min, Type) ONE(KERNEL, Max, Type)
#define SIGNED(KERNEL, Type) ONE(KERNEL, Sum, Type) ORDER(KERNEL, Type)
#define NUMBER(KERNEL, Type) ARITHMETIC(KERNEL, Type) ORDER(KERNEL, Type)
#define BITS(KERNEL, Type) ONE(KERNEL, Band, Type) ONE(KERNEL, Bor, Type) ONE(KERNEL, Bxor, Type)
// clang-format off
#define REDUCE_KERNELS(KERNEL) \
  BITS(KERNEL, Bool)           \
  BITS(KERNEL, U8)             \
  NUMBER(KERNEL, U8)           \
  NUMBER(KERNEL, U16)          \
  NUMBER(KERNEL, U32)          \
  NUMBER(KERNEL, U64)          \
  SIGNED(KERNEL, I8)           \
  SIGNED(KERNEL, I16)          \
  SIGNED(KERNEL, I32)          \
  SIGNED(KERNEL, I64)          \
  NUMBER(KERNEL, F16)          \
  NUMBER(KERNEL, BF16)         \
  NUMBER(KERNEL, F8E4M3)       \
  NUMBER(KERNEL, F8E5M2)       \
  NUMBER(KERNEL, F32)          \
  NUMBER(KERNEL, F64)          \
  ONE(KERNEL, Product, C64)    \
  ONE(KERNEL, Product, C128)
// clang-format on

HOLDFAST_KERNELS(reduce, REDUCE_KERNELS)

}  // namespace holdfast
