#include "compress/device/codec.h"

#include <string>

#include "base/check.h"
#include "compress/block_layout.h"

namespace holdfast::compress {
namespace {

// Elements per thread in kernels without blocks.
constexpr std::uint64_t kPerThread = 8;

bool is_half(CodecId id) { return id == CodecId::kBf16 || id == CodecId::kFp16; }

std::string grid_name(const Codec& codec) {
  return codec.spec().uses.grid && codec.options().grid == Grid::kMinMax ? "_minmax" : "";
}

Result<const device::KernelRow*> find(const Codec& codec, const std::string& name) {
  const device::KernelRow* row = device::find_kernel(name);
  if (row == nullptr) {
    return Status(
        Code::kUnsupported,
        "compression: no kernel of a single stage for " + codec.text() +
            " (compress/device/stages.h); there are those of bf16, fp16, fp8, int8, int4 and "
            "onebit");
  }
  return row;
}

}  // namespace

Result<const device::KernelRow*> encode_kernel(const Codec& codec) {
  const CodecOptions& options = codec.options();
  std::string name = "holdfast_encode_" + std::string(codec.spec().name) + grid_name(codec);
  if (options.rounding == Rounding::kStochastic) name += "_stochastic";
  if (codec.spec().id == CodecId::kOnebit) {
    name += options.sign_scale == SignScale::kRms ? "_rms" : "_l1";
  }
  return find(codec, name);
}

Result<const device::KernelRow*> decode_kernel(const Codec& codec) {
  return find(codec, "holdfast_decode_" + std::string(codec.spec().name) + grid_name(codec));
}

DeviceElements device_elements(DType dtype) {
  switch (dtype) {
    case DType::kF32: return DeviceElements::kF32;
    case DType::kBF16: return DeviceElements::kBF16;
    case DType::kF16: return DeviceElements::kF16;
    default: break;
  }
  check_failed("an element type of lossy codecs", __FILE__, __LINE__);
}

std::uint64_t codec_threads(const Codec& codec, std::uint64_t count) {
  const std::uint32_t block = codec.options().block;
  if (is_half(codec.spec().id)) return (count + kPerThread - 1) / kPerThread;
  return (count + block - 1) / block * 32;
}

DeviceEncode device_encode(const Codec& codec, const void* input, DType dtype, std::uint64_t count,
                           const RoundingKey& key, float* residual, std::byte* frame) {
  return {
      input, residual, frame, count, key_base(key), codec.options().block, device_elements(dtype)};
}

DeviceDecode device_decode(const Codec& codec, const std::byte* frame, DType dtype,
                           std::uint64_t count, void* out, bool add) {
  CHECK(!add || dtype == DType::kF32);
  return {frame, out, count, codec.options().block, device_elements(dtype), add ? 1U : 0U};
}

}  // namespace holdfast::compress
