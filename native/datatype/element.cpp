#include "datatype/element.h"

#include <array>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace holdfast::datatype {
namespace {

template <class T>
constexpr ElementSize size_of(std::uint32_t external32) {
  return {sizeof(T), alignof(T), external32};
}

// By ElementKind. A complex number is aligned as its parts are.
constexpr std::array<ElementSize, kElementKindCount> kSizes{{
    size_of<std::byte>(1),
    size_of<char>(1),
    size_of<wchar_t>(2),
    size_of<bool>(1),
    size_of<std::int8_t>(1),
    size_of<std::int16_t>(2),
    size_of<std::int32_t>(4),
    size_of<std::int64_t>(8),
    size_of<std::uint8_t>(1),
    size_of<std::uint16_t>(2),
    size_of<std::uint32_t>(4),
    size_of<std::uint64_t>(8),
    size_of<long>(4),
    size_of<unsigned long>(4),
    size_of<float>(4),
    size_of<double>(8),
    size_of<long double>(16),
    {2 * sizeof(float), alignof(float), 8},
    {2 * sizeof(double), alignof(double), 16},
    {2 * sizeof(long double), alignof(long double), 32},
}};

// As the C structure is laid out.
template <class Value>
std::int64_t index_offset() {
  struct CPair {
    Value value;
    std::int32_t index;
  };
  return offsetof(CPair, index);
}

std::int64_t index_offset(PairKind kind) {
  switch (kind) {
    case PairKind::kFloatInt: return index_offset<float>();
    case PairKind::kDoubleInt: return index_offset<double>();
    case PairKind::kLongInt: return index_offset<long>();
    case PairKind::kTwoInt: return index_offset<std::int32_t>();
    case PairKind::kShortInt: return index_offset<std::int16_t>();
    case PairKind::kLongDoubleInt: return index_offset<long double>();
  }
  check_failed("a pair of MPI", __FILE__, __LINE__);
}

}  // namespace

ElementSize element_size(ElementKind kind) { return kSizes[static_cast<std::size_t>(kind)]; }

ElementKind pair_value(PairKind kind) {
  switch (kind) {
    case PairKind::kFloatInt: return ElementKind::kFloat;
    case PairKind::kDoubleInt: return ElementKind::kDouble;
    case PairKind::kLongInt: return ElementKind::kLong;
    case PairKind::kTwoInt: return ElementKind::kInt32;
    case PairKind::kShortInt: return ElementKind::kInt16;
    case PairKind::kLongDoubleInt: return ElementKind::kLongDouble;
  }
  check_failed("a pair of MPI", __FILE__, __LINE__);
}

TypeLayout element_layout(ElementKind kind) {
  const ElementSize size = element_size(kind);
  return TypeLayout::bytes(size.bytes, size.alignment);
}

TypeLayout pair_layout(PairKind kind) {
  const std::array types{element_layout(pair_value(kind)), element_layout(ElementKind::kInt32)};
  constexpr std::array<std::int64_t, 2> kOne{1, 1};
  const std::array<std::int64_t, 2> at{0, index_offset(kind)};
  auto pair = TypeLayout::structure(kOne, at, types);
  CHECK(pair.is_ok());
  return std::move(pair).value();
}

}  // namespace holdfast::datatype
