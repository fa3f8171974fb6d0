// The instruction levels that loops are compiled for, and which of them this processor runs: the
// only place that asks the processor for them. Every level gives the same bytes, so that a test
// overrides the level by naming another where a loop is asked for (reduce_kernel(), Codec::at()).
//
// Files compiled for a level include this header: no function may be defined here, or the linker
// could keep a copy of it that other processors cannot run.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast {

// Ordered from the slowest to the fastest of each architecture. Compiler flags are in
// cmake/simd.cmake.
enum class CpuLevel : std::uint8_t { kReference, kBaseline, kAvx2, kAvx512, kNeon };
inline constexpr int kCpuLevelCount = 5;

std::string_view cpu_level_name(CpuLevel level);  // "reference", "AVX-512", ...

// Whether this processor runs the level. Any thread, as for all functions below.
bool has_cpu_level(CpuLevel level);
// All levels that this processor runs, the fastest last.
std::span<const CpuLevel> cpu_levels();
CpuLevel best_cpu_level();

// Whether AVX-512 permutes bytes across a vector here (VBMI), which not every processor of that
// level does.
bool has_byte_permutes();

// Whether AVX2, and AVX-512 where it is, multiplies bytes by matrices of bits here (GFNI).
bool has_galois();

}  // namespace holdfast
