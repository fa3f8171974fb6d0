// The kernels of the block codecs: frames made and read on the device.
#include "compress/device/decode_blocks.h"
#include "compress/device/encode_blocks.h"
#include "compress/device/formats.h"
#include "compress/device/halves.h"
#include "device/kernel_sets.h"

namespace holdfast::compress {
namespace {

using Int8 = Affine<8, Grid::kSymmetric, Rounding::kNearest>;
using Int8Stochastic = Affine<8, Grid::kSymmetric, Rounding::kStochastic>;
using Int8MinMax = Affine<8, Grid::kMinMax, Rounding::kNearest>;
using Int8MinMaxStochastic = Affine<8, Grid::kMinMax, Rounding::kStochastic>;
using Int4 = Affine<4, Grid::kSymmetric, Rounding::kNearest>;
using Int4Stochastic = Affine<4, Grid::kSymmetric, Rounding::kStochastic>;
using Int4MinMax = Affine<4, Grid::kMinMax, Rounding::kNearest>;
using Int4MinMaxStochastic = Affine<4, Grid::kMinMax, Rounding::kStochastic>;
using Rms = Onebit<SignScale::kRms>;
using L1 = Onebit<SignScale::kL1>;
using E4M3 = Fp8Format<4, 3>;
using E5M2 = Fp8Format<5, 2>;

}  // namespace
}  // namespace holdfast::compress

namespace holdfast {

// The kernels' names spell the codec and its options, exactly as compress/device/codec.cpp builds
// them.
#define ENCODE(KERNEL, name, Codec) \
  KERNEL(holdfast_encode_##name, compress::encode_blocks<compress::Codec>)
#define DECODE(KERNEL, name, Codec) \
  KERNEL(holdfast_decode_##name, compress::decode_blocks<compress::Codec>)
#define HALVES(KERNEL, name, As)                                               \
  KERNEL(holdfast_encode_##name, compress::encode_halves<compress::As, false>) \
  KERNEL(holdfast_decode_##name, compress::decode_halves<compress::As>)
// clang-format off
#define CODEC_KERNELS(KERNEL)                                                            \
  HALVES(KERNEL, bf16, Bf16)                                                             \
  KERNEL(holdfast_encode_bf16_stochastic, compress::encode_halves<compress::Bf16, true>) \
  HALVES(KERNEL, fp16, Fp16)                                                             \
  ENCODE(KERNEL, fp8_e4m3, E4M3)                                                         \
  DECODE(KERNEL, fp8_e4m3, E4M3)                                                         \
  ENCODE(KERNEL, fp8_e5m2, E5M2)                                                         \
  DECODE(KERNEL, fp8_e5m2, E5M2)                                                         \
  ENCODE(KERNEL, int8, Int8)                                                             \
  ENCODE(KERNEL, int8_stochastic, Int8Stochastic)                                        \
  ENCODE(KERNEL, int8_minmax, Int8MinMax)                                                \
  ENCODE(KERNEL, int8_minmax_stochastic, Int8MinMaxStochastic)                           \
  DECODE(KERNEL, int8, Int8)                                                             \
  DECODE(KERNEL, int8_minmax, Int8MinMax)                                                \
  ENCODE(KERNEL, int4, Int4)                                                             \
  ENCODE(KERNEL, int4_stochastic, Int4Stochastic)                                        \
  ENCODE(KERNEL, int4_minmax, Int4MinMax)                                                \
  ENCODE(KERNEL, int4_minmax_stochastic, Int4MinMaxStochastic)                           \
  DECODE(KERNEL, int4, Int4)                                                             \
  DECODE(KERNEL, int4_minmax, Int4MinMax)                                                \
  ENCODE(KERNEL, onebit_rms, Rms)                                                        \
  ENCODE(KERNEL, onebit_l1, L1)                                                          \
  DECODE(KERNEL, onebit, Rms)
// clang-format on

HOLDFAST_KERNELS(block_codec, CODEC_KERNELS)

}  // namespace holdfast
