// Shared by the block encoders: input and residual as vectors, a block at a time.
#pragma once

#include <array>
#include <cstring>
#include <type_traits>

#include "compress/loops/kernels.h"
#include "compress/loops/lanes.h"

namespace holdfast::compress {
namespace {

template <bool kResidual>
Floats value_at(const EncodeRun& run, std::uint64_t i) {
  const Floats x = load(run.input + 4 * i);
  if constexpr (kResidual) return x + load(run.residual + i);
  return x;
}

// The default block is a constant to the compiler, which then keeps all of it in registers.
using DefaultBlock = std::integral_constant<std::uint32_t, CodecOptions{}.block>;
inline constexpr std::uint64_t kAheadBytes = 4096;
using BlockValues = std::array<Floats, kGreatestBlock / kLanes>;

// The values to encode of the block at `at`, kept because they are used twice.
template <bool kResidual, class Block>
BlockValues hold(const EncodeRun& run, std::uint64_t at, Block block) {
  BlockValues held;
  for (std::uint32_t i = 0; i < block / kLanes; ++i) {
    // The end of each block keeps the processor from running ahead far enough by itself.
    __builtin_prefetch(run.input + 4 * (at + kLanes * i) + kAheadBytes);
    if constexpr (kResidual)
      __builtin_prefetch(run.residual + at + kLanes * i + kAheadBytes / 4, 1);
    held[i] = value_at<kResidual>(run, at + kLanes * i);
  }
  return held;
}

template <class Block>
std::uint32_t greatest_magnitude(const BlockValues& held, Block block) {
  Words reach = words(0);
  for (std::uint32_t i = 0; i < block / kLanes; ++i) reach = greater(reach, magnitude(held[i]));
  return static_cast<std::uint32_t>(greatest(reach));
}

// Encodes a block with a NaN or an infinity: only its scale shows it, codes and residual are zero.
template <bool kResidual>
void encode_nothing(const EncodeRun& run, std::uint64_t at, std::uint32_t bits) {
  std::memset(run.payload + at * bits / 8, 0, std::size_t{run.block} * bits / 8);
  if (kResidual) std::memset(run.residual + at, 0, std::size_t{run.block} * 4);
}

// Calls encode(residual or not, block), both as types.
template <class Encode>
void for_block(const EncodeRun& run, Encode encode) {
  if constexpr (kInRegisters) {
    if (run.block == DefaultBlock{}) {
      run.residual != nullptr ? encode(std::true_type{}, DefaultBlock{})
                              : encode(std::false_type{}, DefaultBlock{});
      return;
    }
  }
  run.residual != nullptr ? encode(std::true_type{}, run.block)
                          : encode(std::false_type{}, run.block);
}

}  // namespace
}  // namespace holdfast::compress
