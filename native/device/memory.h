// Loads and stores of sixteen bytes at any address. A GPU has no unaligned accesses: a value that
// straddles two aligned vectors is built from both, and the neighbour thread finds the second
// vector in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/simt.h"

namespace holdfast::device {

inline constexpr std::size_t kVectorBytes = 16;

struct alignas(kVectorBytes) Vector {
  std::uint32_t word[4];
};

HOLDFAST_DEVICE std::uintptr_t address_of(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at);
}
HOLDFAST_DEVICE std::uint32_t offset_in_vector(const void* at) {
  return static_cast<std::uint32_t>(address_of(at) % kVectorBytes);
}
HOLDFAST_DEVICE const std::byte* bytes_at(const void* base, std::uint64_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}
HOLDFAST_DEVICE std::byte* bytes_at(void* base, std::uint64_t offset) {
  return static_cast<std::byte*>(base) + offset;
}

// These take any address; the compiler knows no alignment, and accesses byte by byte.
template <class T>
HOLDFAST_DEVICE T load_loose(const void* at) {
  T out;
  memcpy(static_cast<void*>(&out), at, sizeof out);
  return out;
}
template <class T>
HOLDFAST_DEVICE void store_loose(void* at, const T& value) {
  memcpy(at, static_cast<const void*>(&value), sizeof value);
}

// These access an element of 2, 4 or 8 bytes in the fastest way that its address allows.
template <class T>
HOLDFAST_DEVICE T load_element(const void* at) {
  if (address_of(at) % sizeof(T) == 0) return *static_cast<const T*>(at);
  return load_loose<T>(at);
}
template <class T>
HOLDFAST_DEVICE void store_element(void* at, const T& value) {
  if (address_of(at) % sizeof(T) == 0) {
    *static_cast<T*>(at) = value;
  } else {
    store_loose(at, value);
  }
}

HOLDFAST_DEVICE Vector load_vector(const void* at) {
#if defined(__CUDACC__)
  const uint4 x = *static_cast<const uint4*>(at);
  return {{x.x, x.y, x.z, x.w}};
#else
  return *static_cast<const Vector*>(at);
#endif
}
HOLDFAST_DEVICE void store_vector(void* at, const Vector& value) {
#if defined(__CUDACC__)
  *static_cast<uint4*>(at) = {value.word[0], value.word[1], value.word[2], value.word[3]};
#else
  *static_cast<Vector*>(at) = value;
#endif
}

// Bytes [offset, offset + 16) of `low` followed by `high`.
HOLDFAST_DEVICE Vector straddle(const Vector& low, const Vector& high, std::uint32_t offset) {
  std::uint32_t word[8] = {low.word[0],  low.word[1],  low.word[2],  low.word[3],
                           high.word[0], high.word[1], high.word[2], high.word[3]};
  // The shifts have constant widths, so that all words stay in registers.
  if ((offset & 8U) != 0) {
    for (int i = 0; i < 6; ++i) word[i] = word[i + 2];
  }
  if ((offset & 4U) != 0) {
    for (int i = 0; i < 5; ++i) word[i] = word[i + 1];
  }
  const std::uint32_t bits = 8 * (offset & 3U);
  Vector out;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t both = std::uint64_t{word[i + 1]} << 32 | word[i];
    out.word[i] = static_cast<std::uint32_t>(both >> bits);
  }
  return out;
}

// The array that may be read; no byte outside it is touched.
struct Extent {
  const std::byte* begin;
  const std::byte* end;
};

// Loads sixteen bytes at any address within `extent`.
HOLDFAST_DEVICE Vector load_any(const std::byte* at, const Extent& extent) {
  const std::uint32_t offset = offset_in_vector(at);
  if (offset == 0) return load_vector(at);
  const std::byte* const low = at - offset;
  if (low < extent.begin || low + 2 * kVectorBytes > extent.end) return load_loose<Vector>(at);
  return straddle(load_vector(low), load_vector(low + kVectorBytes), offset);
}

}  // namespace holdfast::device
