// Gathers of elements of 4 and 8 bytes by 32-bit offsets, 64 bytes at a time.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "datatype/loops/kernels.h"

namespace holdfast::datatype {
namespace {

#if defined(__AVX512F__)

void gather4_loop(const ListRun& given) {
  const ListRun run = given;
  std::uint64_t i = 0;
  for (; i + 16 <= run.count; i += 16) {
    const __m512i at = _mm512_loadu_si512(run.near + i);
    _mm512_storeu_si512(run.to + 4 * i, _mm512_i32gather_epi32(at, run.from, 1));
  }
  for (; i < run.count; ++i) __builtin_memcpy(run.to + 4 * i, run.from + run.near[i], 4);
}

void gather8_loop(const ListRun& given) {
  const ListRun run = given;
  std::uint64_t i = 0;
  for (; i + 8 <= run.count; i += 8) {
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(run.near + i));
    _mm512_storeu_si512(run.to + 8 * i, _mm512_i32gather_epi64(at, run.from, 1));
  }
  for (; i < run.count; ++i) __builtin_memcpy(run.to + 8 * i, run.from + run.near[i], 8);
}

#endif

}  // namespace
}  // namespace holdfast::datatype
