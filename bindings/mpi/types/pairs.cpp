#include "mpi/types/pairs.h"

#include <cstring>

#include "base/check.h"
#include "mpi/core/predefined.h"

namespace holdfast::mpi {

namespace {

struct Places {
  const std::byte* in;
  std::byte* inout;
  std::uint64_t count;
  std::uint64_t stride;
  std::uint64_t index_at;
};

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
bool is_nan(T value) {
  return value != value;
}

// Whether the pair of `in` takes the place of the other.
template <class Value, class Index>
bool wins(bool greatest, Value in, Index in_index, Value other, Index other_index) {
  const bool tie = in == other || (is_nan(in) && is_nan(other));
  if (tie) return in_index <= other_index;
  if (is_nan(in) || is_nan(other)) return is_nan(in);
  return greatest ? in > other : in < other;
}

template <class Value, class Index>
void combine(bool greatest, const Places& at) {
  for (std::uint64_t i = 0; i < at.count; ++i) {
    const std::byte* in = at.in + i * at.stride;
    std::byte* inout = at.inout + i * at.stride;
    const bool won = wins(greatest, load<Value>(in), load<Index>(in + at.index_at),
                          load<Value>(inout), load<Index>(inout + at.index_at));
    if (!won) continue;
    std::memcpy(inout, in, sizeof(Value));
    std::memcpy(inout + at.index_at, in + at.index_at, sizeof(Index));
  }
}

}  // namespace

std::uint64_t index_bytes(const PairType& type) { return basic_type(type.index)->bytes; }

void combine_pairs(const PairType& type, bool greatest, const std::byte* in, std::byte* inout,
                   std::uint64_t count, std::uint64_t stride, std::uint64_t index_at) {
  const Places at{in, inout, count, stride, index_at};
  switch (type.number) {
    case kTypeFloatInt: return combine<float, int>(greatest, at);
    case kTypeDoubleInt: return combine<double, int>(greatest, at);
    case kTypeLongInt: return combine<long, int>(greatest, at);
    case kTypeTwoInt:
    case kTypeTwoInteger: return combine<int, int>(greatest, at);
    case kTypeShortInt: return combine<short, int>(greatest, at);
    case kTypeLongDoubleInt: return combine<long double, int>(greatest, at);
    case kTypeTwoReal: return combine<float, float>(greatest, at);
    case kTypeTwoDoublePrecision: return combine<double, double>(greatest, at);
    default: CHECK(false && "a pair type without a row");
  }
}

}  // namespace holdfast::mpi
