// Selects the loops for a codec and its options; each instruction level compiles this file again.
#pragma once

#include "base/check.h"
#include "compress/loops/affine_loops.h"
#include "compress/loops/bfloat_loops.h"
#include "compress/loops/fp8_loops.h"
#include "compress/loops/half_loops.h"
#include "compress/loops/kernels.h"
#include "compress/loops/onebit_loops.h"
#include "compress/loops/topk_loops.h"

namespace holdfast::compress {
namespace {

template <int kBits>
BlockKernels select_affine(const CodecOptions& options) {
  return options.grid == Grid::kMinMax ? affine_kernels<kBits, Grid::kMinMax>(options.rounding)
                                       : affine_kernels<kBits, Grid::kSymmetric>(options.rounding);
}

[[maybe_unused]] BlockKernels select_block_kernels(CodecId id, const CodecOptions& options) {
  switch (id) {
    case CodecId::kBf16:
      return options.rounding == Rounding::kStochastic ? half_kernels<AsBf16<true>>()
                                                       : half_kernels<AsBf16<false>>();
    case CodecId::kFp16: return half_kernels<AsFp16>();
    case CodecId::kFp8E4M3: return fp8_kernels<Fp8<4, 3>>();
    case CodecId::kFp8E5M2: return fp8_kernels<Fp8<5, 2>>();
    case CodecId::kInt8: return select_affine<8>(options);
    case CodecId::kInt4: return select_affine<4>(options);
    case CodecId::kOnebit:
      return {options.sign_scale == SignScale::kRms ? encode_onebit<SignScale::kRms>
                                                    : encode_onebit<SignScale::kL1>,
              decode_onebit<false>, decode_onebit<true>};
    default: break;
  }
  check_failed("a codec of blocks", __FILE__, __LINE__);
}

[[maybe_unused]] ScanKernels select_scan_kernels() {
  return {collect_loop, split_loop, join_loop, part_loop, merge_loop};
}

}  // namespace
}  // namespace holdfast::compress
