#include "compress/options.h"

#include <cmath>
#include <string>

namespace holdfast::compress {
namespace {

Status refuse(const std::string& what) { return {Code::kConfigError, "compression: " + what}; }

}  // namespace

CodecOptions default_options(CodecId id) {
  CodecOptions options;
  if (id == CodecId::kOnebit) options.block = kGreatestBlock;
  return options;
}

Status check_options(const CodecUses& uses, const CodecOptions& options) {
  if (options.block < kLeastBlock || options.block > kGreatestBlock ||
      options.block % kLeastBlock != 0) {
    return refuse("block is " + std::to_string(options.block) +
                  ", accepted are multiples of 32 from 32 to 512");
  }
  if (options.rounding == Rounding::kStochastic && !uses.rounding) {
    return refuse("rounding is stochastic, which only bf16, int8 and int4 do; accepted is nearest");
  }
  if (options.grid == Grid::kMinMax && !uses.grid) {
    return refuse("grid is min-max, which only int8 and int4 have; accepted is symmetric");
  }
  // The condition is written so that NaN is refused, too.
  if (!(options.ratio > 0.0 && options.ratio <= 1.0)) {
    return refuse("ratio is " + std::to_string(options.ratio) +
                  ", accepted is what is above 0 and at most 1");
  }
  if (options.zstd_level < kLeastZstdLevel || options.zstd_level > kGreatestZstdLevel) {
    return refuse("zstd_level is " + std::to_string(options.zstd_level) +
                  ", accepted are -7 to 19");
  }
  return Status::ok();
}

}  // namespace holdfast::compress
