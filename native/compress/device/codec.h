// Block codecs on a GPU: kernels that make and read the CPU's frames, bit for bit, with the error
// feedback in the same pass. The bits of a NaN are the CPU's, too; only a NaN that decode_add()
// sums gets the device's bits.
#pragma once

#include <cstdint>

#include "compress/codec.h"
#include "device/kernel.h"

namespace holdfast::compress {

// Element types that lossy codecs take.
enum class DeviceElements : std::uint32_t { kF32, kBF16, kF16 };

// EncodeRequest on a device. Any address will do; multiples of 16 are fast.
struct DeviceEncode {
  const void* input;
  float* residual;  // nullptr, or one per element
  std::byte* frame;
  std::uint64_t count;
  std::uint64_t key;  // key_base()
  std::uint32_t block;
  DeviceElements elements;
};

struct DeviceDecode {
  const std::byte* frame;
  void* out;
  std::uint64_t count;
  std::uint32_t block;
  DeviceElements elements;
  std::uint32_t add;  // 1: out += decoded, f32 only
};

// Code::kUnsupported for a codec without kernels, naming those that have some.
Result<const device::KernelRow*> encode_kernel(const Codec& codec);
Result<const device::KernelRow*> decode_kernel(const Codec& codec);
// `dtype` must be one that the codec takes.
DeviceElements device_elements(DType dtype);
// Threads that `count` elements keep busy, for device::persistent().
std::uint64_t codec_threads(const Codec& codec, std::uint64_t count);

// Complete arguments for the kernels. The codec must have kernels.
DeviceEncode device_encode(const Codec& codec, const void* input, DType dtype, std::uint64_t count,
                           const RoundingKey& key, float* residual, std::byte* frame);
DeviceDecode device_decode(const Codec& codec, const std::byte* frame, DType dtype,
                           std::uint64_t count, void* out, bool add);

}  // namespace holdfast::compress
