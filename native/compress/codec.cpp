#include "compress/codec.h"

#include <array>
#include <string>

#include "base/check.h"
#include "compress/bfloat.h"
#include "compress/block_codec.h"
#include "compress/topk.h"
#include "compress/zstd_bytes.h"
#include "compress/zstd_codec.h"

namespace holdfast::compress {
namespace {

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

constexpr CodecRow block_row(CodecId id, std::string_view name, std::string_view error_bound,
                             CodecUses uses = {}) {
  return {{id, name, false, true, true, error_bound, uses},
          is_float,
          block_bound,
          block_encode,
          block_decode,
          block_decode_add};
}

constexpr std::array kRows{
    block_row(CodecId::kBf16, "bf16", "|x| / 256 + 2^-134; stochastic twice that",
              {.rounding = true}),
    block_row(CodecId::kFp16, "fp16", "|x| / 2048 + 2^-25 up to 65504; infinite beyond 65520"),
    block_row(CodecId::kFp8E4M3, "fp8_e4m3", "max(|x| / 16, scale / 1024); scale <= max / 224",
              {.block = true}),
    block_row(CodecId::kFp8E5M2, "fp8_e5m2",
              "max(|x| / 8, scale / 2^17); scale <= max / 28672, at least 2^-126", {.block = true}),
    block_row(CodecId::kInt8, "int8", "step / 2, stochastic step; step = reach / 127 (1 + 2^-15)",
              {.block = true, .grid = true, .rounding = true}),
    block_row(CodecId::kInt4, "int4", "step / 2, stochastic step; step = reach / 7 (1 + 2^-15)",
              {.block = true, .grid = true, .rounding = true}),
    block_row(CodecId::kOnebit, "onebit", "||x| - scale|; scale = the block's RMS or mean |x|",
              {.block = true, .sign_scale = true}),
    CodecRow{{CodecId::kTopk,
              "topk",
              false,
              true,
              true,
              "|x|, and none of the k largest",
              {.ratio = true}},
             is_float,
             topk_bound,
             topk_encode,
             topk_decode,
             topk_decode_add},
    CodecRow{{CodecId::kZstd, "zstd", true, false, false, "0", {.level = true}},
             [](DType) { return true; },
             zstd_bound,
             zstd_encode,
             zstd_decode,
             zstd_decode_add},
    CodecRow{{CodecId::kBfloat, "bfloat", true, false, false, "0", {.tier = true}},
             [](DType dtype) { return dtype == DType::kBF16; },
             bfloat_bound,
             bfloat_encode,
             bfloat_decode,
             bfloat_decode_add},
};
static_assert(kRows.size() == kCodecCount);

// More elements than any memory holds; sizes computed from this count do not overflow.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48;

std::uint64_t count_of(std::size_t bytes, DType dtype) {
  CHECK(bytes % dtype_bytes(dtype) == 0);
  return bytes / dtype_bytes(dtype);
}

}  // namespace

std::span<const CodecRow> catalogue() { return kRows; }

const CodecRow* find(std::string_view name) {
  for (const CodecRow& row : kRows) {
    if (row.spec.name == name) return &row;
  }
  return nullptr;
}

Result<Codec> Codec::make(std::string_view name, const CodecOptions& options) {
  const CodecRow* row = find(name);
  if (row == nullptr) {
    std::string known;
    for (const CodecRow& each : kRows) known += " " + std::string(each.spec.name);
    return Status(Code::kConfigError,
                  "compression: no codec '" + std::string(name) + "'; there are" + known);
  }
  TRY(check_options(row->spec.uses, options));
  const bool uses_zstd = row->spec.id == CodecId::kZstd ||
                         (row->spec.id == CodecId::kBfloat && options.tier == Tier::kDense);
  if (uses_zstd && !has_zstd()) {
    return Status(Code::kUnsupported, "compression: " + std::string(name) +
                                          " needs libzstd, which this build was made without");
  }
  return Codec(row, {row->spec.id, options, best_cpu_level()});
}

Codec Codec::at(CpuLevel level) const {
  CHECK(has_cpu_level(level));
  return {row_, {setup_.id, setup_.options, level}};
}

std::size_t Codec::encoded_bound(DType dtype, std::uint64_t count) const {
  CHECK(takes(dtype) && count <= kMostElements);
  return row_->bound(setup_, dtype, count);
}

std::size_t Codec::encode(const EncodeRequest& request, std::span<std::byte> out) const {
  const std::uint64_t count = count_of(request.input.size(), request.dtype);
  CHECK(out.size() >= encoded_bound(request.dtype, count));
  CHECK(request.residual.empty() ||
        (row_->spec.takes_residual && request.residual.size() == count));
  return row_->encode(setup_, request, out);
}

Status Codec::decode(std::span<const std::byte> frame, DType dtype,
                     std::span<std::byte> out) const {
  CHECK(takes(dtype));
  CHECK(count_of(out.size(), dtype) <= kMostElements);
  return row_->decode(setup_, frame, dtype, out);
}

Status Codec::decode_add(std::span<const std::byte> frame, std::span<float> sum) const {
  return row_->decode_add(setup_, frame, sum);
}

}  // namespace holdfast::compress
