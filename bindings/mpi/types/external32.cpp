#include "mpi/types/external32.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cstring>

namespace holdfast::mpi {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are turned round on the way");

constexpr std::size_t kQuadBytes = 16;

void turn_round(const std::byte* from, std::byte* to, std::size_t bytes) {
  std::reverse_copy(from, from + bytes, to);
}

std::uint64_t load(const std::byte* at, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

// The number whose lowest `bytes` bytes are `value`.
std::uint64_t extended(std::uint64_t value, std::size_t bytes, bool is_signed) {
  const auto unused = static_cast<int>(64 - 8 * bytes);
  const std::uint64_t high = value << unused;
  if (!is_signed) return high >> unused;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(high) >> unused);
}

struct Quad {
  std::uint64_t high;  // sign, 15 bits of exponent, 48 of the fraction
  std::uint64_t low;
};

// The 80 bits of x86: a sign, 15 bits of exponent, and 64 of which the first is the integer.
struct Extended {
  std::uint64_t mantissa;
  std::uint16_t head;
};

constexpr std::uint64_t kInteger = std::uint64_t{1} << 63;
constexpr int kMore = 112 - 63;  // bits of fraction that a quad has beyond it

Quad widened(const Extended& number) {
  const std::uint64_t fraction = number.mantissa & ~kInteger;
  std::uint64_t head = number.head;
  // A denormal number with an integer bit is a normal one in a quad.
  if ((head & 0x7fff) == 0 && (number.mantissa & kInteger) != 0) ++head;
  return {head << 48 | fraction >> (63 - 48), fraction << kMore};
}

// Rounded to nearest, ties to even.
Extended narrowed(const Quad& number) {
  auto head = static_cast<std::uint16_t>(number.high >> 48);
  std::uint64_t fraction = (number.high << 16 >> 16) << (63 - 48) | number.low >> kMore;
  const std::uint64_t rest = number.low << (64 - kMore) >> (64 - kMore);
  const std::uint64_t half = std::uint64_t{1} << (kMore - 1);
  const bool is_finite = (head & 0x7fff) != 0x7fff;
  if (!is_finite) {
    if (fraction == 0 && rest != 0) fraction = kInteger >> 1;  // stays no number
  } else if (rest > half || (rest == half && (fraction & 1) != 0)) {
    if (++fraction == kInteger) {
      fraction = 0;
      ++head;
    }
  }
  return {fraction | ((head & 0x7fff) != 0 ? kInteger : 0), head};
}

void long_double_out(const std::byte* from, std::byte* to) {
  if constexpr (LDBL_MANT_DIG == 113) {
    turn_round(from, to, kQuadBytes);
  } else {
    const Quad quad =
        widened({load(from, 8), static_cast<std::uint16_t>(load(from + 8, sizeof(std::uint16_t)))});
    turn_round(reinterpret_cast<const std::byte*>(&quad.high), to, 8);
    turn_round(reinterpret_cast<const std::byte*>(&quad.low), to + 8, 8);
  }
}

void long_double_in(const std::byte* from, std::byte* to) {
  if constexpr (LDBL_MANT_DIG == 113) {
    turn_round(from, to, kQuadBytes);
  } else {
    Quad quad{};
    turn_round(from, reinterpret_cast<std::byte*>(&quad.high), 8);
    turn_round(from + 8, reinterpret_cast<std::byte*>(&quad.low), 8);
    const Extended number = narrowed(quad);
    std::memset(to, 0, sizeof(long double));
    std::memcpy(to, &number.mantissa, 8);
    std::memcpy(to + 8, &number.head, 2);
  }
}

bool is_signed(const BasicType& type) {
  return type.kind == ElementKind::kSigned || type.kind == ElementKind::kAddress ||
         type.kind == ElementKind::kLogical;
}

bool integer_out(const BasicType& type, const std::byte* from, std::byte* to) {
  const std::uint64_t value = load(from, type.bytes);
  turn_round(reinterpret_cast<const std::byte*>(&value), to, type.external);
  return extended(value, type.external, is_signed(type)) ==
         extended(value, type.bytes, is_signed(type));
}

bool integer_in(const BasicType& type, const std::byte* from, std::byte* to) {
  std::uint64_t value = 0;
  turn_round(from, reinterpret_cast<std::byte*>(&value), type.external);
  value = extended(value, type.external, is_signed(type));
  std::memcpy(to, &value, type.bytes);
  return true;
}

void real_out(const std::byte* from, std::byte* to, std::size_t bytes) {
  bytes == sizeof(long double) ? long_double_out(from, to) : turn_round(from, to, bytes);
}

void real_in(const std::byte* from, std::byte* to, std::size_t bytes) {
  bytes == sizeof(long double) ? long_double_in(from, to) : turn_round(from, to, bytes);
}

bool element_out(const BasicType& type, const std::byte* from, std::byte* to) {
  switch (type.kind) {
    case ElementKind::kFloat:
    case ElementKind::kBrainFloat: real_out(from, to, type.bytes); return true;
    case ElementKind::kComplex:
      real_out(from, to, type.bytes / 2u);
      real_out(from + type.bytes / 2, to + type.external / 2, type.bytes / 2u);
      return true;
    default: return integer_out(type, from, to);
  }
}

bool element_in(const BasicType& type, const std::byte* from, std::byte* to) {
  switch (type.kind) {
    case ElementKind::kFloat:
    case ElementKind::kBrainFloat: real_in(from, to, type.bytes); return true;
    case ElementKind::kComplex:
      real_in(from, to, type.bytes / 2u);
      real_in(from + type.external / 2, to + type.bytes / 2, type.bytes / 2u);
      return true;
    default: return integer_in(type, from, to);
  }
}

using Convert = bool (*)(const BasicType&, const std::byte*, std::byte*);

// Of each element, `from` has so many bytes and `to` so many.
const char* convert(const ElementList& elements, std::uint64_t count, Convert one,
                    const std::byte* from, std::uint8_t BasicType::*from_bytes, std::byte* to,
                    std::uint8_t BasicType::*to_bytes) {
  const char* unfit = nullptr;
  for_each_run(repeated(count, elements), [&](const BasicType& type, std::uint64_t length) {
    if (type.bytes == 1 && type.external == 1) {
      std::memcpy(to, from, length);
      from += length;
      to += length;
      return;
    }
    for (std::uint64_t i = 0; i < length; ++i) {
      if (!one(type, from, to)) unfit = type.name;
      from += type.*from_bytes;
      to += type.*to_bytes;
    }
  });
  return unfit;
}

}  // namespace

const char* to_external32(const ElementList& elements, std::uint64_t count, const std::byte* packed,
                          std::byte* external) {
  return convert(elements, count, element_out, packed, &BasicType::bytes, external,
                 &BasicType::external);
}

const char* from_external32(const ElementList& elements, std::uint64_t count,
                            const std::byte* external, std::byte* packed) {
  return convert(elements, count, element_in, external, &BasicType::external, packed,
                 &BasicType::bytes);
}

}  // namespace holdfast::mpi
