#include "base/cpu.h"

#include <algorithm>
#include <array>
#include <cstddef>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace holdfast {
namespace {

bool runs_anywhere() { return true; }

[[maybe_unused]] bool runs_nowhere() { return false; }  // for levels of another architecture

#if defined(__x86_64__)
// Also checks for F16C, the conversions of Half, which came before AVX2.
bool runs_avx2() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
         (c & bit_F16C) != 0;
}

bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool runs_vbmi() { return runs_avx512() && __builtin_cpu_supports("avx512vbmi"); }

bool runs_gfni() { return runs_avx2() && __builtin_cpu_supports("gfni"); }
#else
constexpr auto runs_vbmi = runs_nowhere;
constexpr auto runs_gfni = runs_nowhere;
constexpr auto runs_avx2 = runs_nowhere;
constexpr auto runs_avx512 = runs_nowhere;
#endif

#if defined(__aarch64__)
constexpr auto runs_neon = runs_anywhere;  // every such processor has it
#else
constexpr auto runs_neon = runs_nowhere;
#endif

struct LevelRow {
  CpuLevel level;
  std::string_view name;
  bool (*runs)();
};

constexpr std::array<LevelRow, kCpuLevelCount> kLevelRows{{
    {CpuLevel::kReference, "reference", runs_anywhere},
    {CpuLevel::kBaseline, "baseline", runs_anywhere},
    {CpuLevel::kAvx2, "AVX2", runs_avx2},
    {CpuLevel::kAvx512, "AVX-512", runs_avx512},
    {CpuLevel::kNeon, "NEON", runs_neon},
}};

static_assert(
    [] {
      for (std::size_t i = 0; i < kLevelRows.size(); ++i) {
        if (kLevelRows[i].level != static_cast<CpuLevel>(i)) return false;
      }
      return true;
    }(),
    "a row for every level, in their order");

struct FoundLevels {
  std::array<CpuLevel, kCpuLevelCount> levels;
  std::size_t count = 0;
};

FoundLevels find_levels() {
  FoundLevels found;
  for (const LevelRow& row : kLevelRows) {
    if (row.runs()) found.levels[found.count++] = row.level;
  }
  return found;
}

}  // namespace

std::string_view cpu_level_name(CpuLevel level) {
  return kLevelRows[static_cast<std::size_t>(level)].name;
}

std::span<const CpuLevel> cpu_levels() {
  // Asking the processor is slow, most of all in virtual machines.
  static const FoundLevels found = find_levels();
  return std::span(found.levels).first(found.count);
}

bool has_cpu_level(CpuLevel level) { return std::ranges::count(cpu_levels(), level) != 0; }

CpuLevel best_cpu_level() { return cpu_levels().back(); }

bool has_byte_permutes() {
  static const bool found = runs_vbmi();
  return found;
}

bool has_galois() {
  static const bool found = runs_gfni();
  return found;
}

}  // namespace holdfast
