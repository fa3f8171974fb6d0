#include "compress/loops/kernels.h"

#include "base/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace holdfast::compress {
namespace {

#if defined(__x86_64__)
bool asks_avx2() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
         (c & bit_F16C) != 0;
}
#endif

Level find_best() {
#if defined(__x86_64__)
  if (has_level(Level::kAvx512)) return Level::kAvx512;
  if (has_level(Level::kAvx2)) return Level::kAvx2;
#elif defined(__aarch64__)
  return Level::kNeon;
#endif
  return Level::kBaseline;
}

}  // namespace

bool has_level(Level level) {
  switch (level) {
    case Level::kReference:
    case Level::kBaseline: return true;
#if defined(__x86_64__)
    case Level::kAvx2: return asks_avx2();
    case Level::kAvx512:
      return asks_avx2() && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
    case Level::kNeon: return true;  // every such processor has it
#endif
    default: break;
  }
  return false;
}

Level best_level() {
  // Asking the processor is slow, most of all in virtual machines.
  static const Level best = find_best();
  return best;
}

BlockKernels block_kernels(Level level, CodecId id, const CodecOptions& options) {
  switch (level) {
    case Level::kReference: return block_kernels_reference(id, options);
    case Level::kBaseline: return block_kernels_baseline(id, options);
#if defined(__x86_64__)
    case Level::kAvx2: return block_kernels_avx2(id, options);
    case Level::kAvx512: return block_kernels_avx512(id, options);
#elif defined(__aarch64__)
    case Level::kNeon: return block_kernels_neon(id, options);
#endif
    default: break;
  }
  check_failed("a level of this processor", __FILE__, __LINE__);
}

ScanKernels scan_kernels(Level level) {
  switch (level) {
    case Level::kReference: return scan_kernels_reference();
    case Level::kBaseline: return scan_kernels_baseline();
#if defined(__x86_64__)
    case Level::kAvx2: return scan_kernels_avx2();
    case Level::kAvx512: return scan_kernels_avx512();
#elif defined(__aarch64__)
    case Level::kNeon: return scan_kernels_neon();
#endif
    default: break;
  }
  check_failed("a level of this processor", __FILE__, __LINE__);
}

}  // namespace holdfast::compress
