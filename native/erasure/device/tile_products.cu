// A thread has 16 bytes of every tile at a time. For each bit of the coefficients it adds the input
// to the rows that have the bit, and doubles it: four bytes in one word, which no table could serve
// without a bank's conflicts. All threads of a grid read the same coefficient at the same time.
#include "device/kernel_sets.h"
#include "device/memory.h"
#include "device/simt.h"
#include "erasure/device/tile_products.h"

namespace holdfast::erasure {
namespace {

using device::Thread;

// Rows whose sums a thread has in registers; more read their inputs again.
inline constexpr std::uint32_t kDeviceRows = 4;

struct WideUnit {
  static constexpr std::uint32_t kBytes = 16;
  static constexpr std::uint32_t kWords = 4;
  HOLDFAST_DEVICE static void load(const std::byte* from, std::uint32_t* word) {
    const device::Vector x = device::load_vector(from);
    HOLDFAST_UNROLL
    for (std::uint32_t w = 0; w < kWords; ++w) word[w] = x.word[w];
  }
  HOLDFAST_DEVICE static void store(std::byte* to, const std::uint32_t* word) {
    device::store_vector(to, {{word[0], word[1], word[2], word[3]}});
  }
};

template <class Word>
struct NarrowUnit {
  static constexpr std::uint32_t kBytes = sizeof(Word);
  static constexpr std::uint32_t kWords = 1;
  HOLDFAST_DEVICE static void load(const std::byte* from, std::uint32_t* word) {
    word[0] = *reinterpret_cast<const Word*>(from);
  }
  HOLDFAST_DEVICE static void store(std::byte* to, const std::uint32_t* word) {
    *reinterpret_cast<Word*>(to) = static_cast<Word>(word[0]);
  }
};

// Four symbols, times two.
HOLDFAST_DEVICE std::uint32_t doubled(std::uint32_t x) {
  return (x & 0x7f7f7f7fU) << 1 ^ (x >> 7 & 0x01010101U) * (kFieldPolynomial & 0xffU);
}

template <class Unit>
HOLDFAST_DEVICE void add_input(const TileProductsArgument& a, std::uint32_t first, std::uint32_t i,
                               std::uint64_t at, std::uint32_t (&sum)[kDeviceRows][Unit::kWords]) {
  std::uint32_t coefficient[kDeviceRows];
  HOLDFAST_UNROLL
  for (std::uint32_t r = 0; r < kDeviceRows; ++r) {
    coefficient[r] = first + r < a.rows ? a.coefficients[(first + r) * a.count + i] : 0U;
  }
  std::uint32_t x[Unit::kWords];
  Unit::load(a.inputs[i] + at, x);
  HOLDFAST_UNROLL
  for (std::uint32_t bit = 0; bit < 8; ++bit) {
    HOLDFAST_UNROLL
    for (std::uint32_t r = 0; r < kDeviceRows; ++r) {
      const std::uint32_t mask = 0U - (coefficient[r] >> bit & 1U);
      HOLDFAST_UNROLL
      for (std::uint32_t w = 0; w < Unit::kWords; ++w) sum[r][w] ^= x[w] & mask;
    }
    HOLDFAST_UNROLL
    for (std::uint32_t w = 0; w < Unit::kWords; ++w) x[w] = doubled(x[w]);
  }
}

// Units of [begin, bytes); what is left at the end is less than one.
template <class Unit>
HOLDFAST_DEVICE void multiply_units(const Thread& thread, const TileProductsArgument& a,
                                    std::uint64_t begin) {
  const std::uint64_t units = (a.bytes - begin) / Unit::kBytes;
  for (std::uint64_t unit = thread.global(); unit < units; unit += thread.stride()) {
    const std::uint64_t at = begin + unit * Unit::kBytes;
    for (std::uint32_t first = 0; first < a.rows; first += kDeviceRows) {
      std::uint32_t sum[kDeviceRows][Unit::kWords] = {};
      for (std::uint32_t i = 0; i < a.count; ++i) add_input<Unit>(a, first, i, at, sum);
      HOLDFAST_UNROLL
      for (std::uint32_t r = 0; r < kDeviceRows; ++r) {
        if (first + r < a.rows) Unit::store(a.outputs[first + r] + at, sum[r]);
      }
    }
  }
}

HOLDFAST_DEVICE void multiply_any(const Thread& thread, const TileProductsArgument& a) {
  using SingleByte = NarrowUnit<std::uint8_t>;
  switch (a.unit_bytes) {
    case 16: multiply_units<WideUnit>(thread, a, 0); break;
    case 4: multiply_units<NarrowUnit<std::uint32_t>>(thread, a, 0); break;
    default: multiply_units<SingleByte>(thread, a, 0); return;
  }
  multiply_units<SingleByte>(thread, a, a.bytes - a.bytes % a.unit_bytes);
}

}  // namespace
}  // namespace holdfast::erasure

namespace holdfast {

#define TILE_PRODUCTS_KERNELS(KERNEL) KERNEL(holdfast_multiply_tiles, erasure::multiply_any)

HOLDFAST_KERNELS(tile_products, TILE_PRODUCTS_KERNELS)

}  // namespace holdfast
