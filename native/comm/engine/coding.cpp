#include "comm/engine/coding.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.h"
#include "base/copy.h"

namespace holdfast::comm {
namespace {

std::span<const std::byte> frame_of(const CodeMemory& memory) {
  return {memory.src, memory.frame_bytes};
}

// The codec whose frames are the elements of this dtype: encoding rounds f32 to it, decoding widens
// it to f32.
compress::Codec half_of(DType dtype) {
  auto half = compress::Codec::make(dtype == DType::kBF16 ? "bf16" : "fp16");
  CHECK(half.is_ok());
  return std::move(half).value();
}

void narrow(std::uint64_t count, const std::byte* from, DType dtype, std::byte* to) {
  if (dtype == DType::kF32) {
    copy_bytes(to, from, count * sizeof(float));
    return;
  }
  half_of(dtype).encode({{from, count * sizeof(float)}, DType::kF32, {}, {}},
                        {to, count * dtype_bytes(dtype)});
}

void widen(std::uint64_t count, const std::byte* from, DType dtype, std::span<std::byte> to) {
  if (dtype == DType::kF32) return copy_bytes(to.data(), from, count * sizeof(float));
  const Status status = half_of(dtype).decode({from, count * dtype_bytes(dtype)}, DType::kF32, to);
  CHECK(status.is_ok());
}

// What the frame of a sum lost becomes the sum residual of the chunk's owner, which is added to the
// owner's next input.
void add_error(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec) {
  const std::span<float> sum{step.sum, step.count};
  for (float& x : sum) x = -x;
  CHECK(codec.decode_add({memory.dst, memory.frame_bytes}, sum).is_ok());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    // A block that is not finite leaves no residual.
    if (std::isfinite(sum[i])) step.sum_residual[i] -= step.times * sum[i];
  }
}

// Encodes an input, and its residual, as its share in a weighted average. What the frame lost of it
// is the residual, in the input's own measure; an input that counts nothing leaves it as it was.
std::size_t encode_scaled(const CodeStep& step, const CodeMemory& memory,
                          const compress::Codec& codec, const compress::RoundingKey& key) {
  const std::span<std::byte> frame{memory.dst, memory.frame_bytes};
  if (codec.spec().lossless) {
    const auto scaled = memory.unpacked.first(step.count * dtype_bytes(step.dtype));
    scale_kernel(step.dtype)(scaled.data(), memory.src, step.count, step.scale);
    return codec.encode({scaled, step.dtype, key, {}}, frame);
  }
  const auto room = memory.unpacked.first(step.count * sizeof(float));
  widen(step.count, memory.src, step.dtype, room);
  auto* values = reinterpret_cast<float*>(room.data());
  for (std::size_t i = 0; i < step.count && step.feedback != nullptr; ++i) {
    values[i] += step.residual[i];
  }
  scale_kernel(DType::kF32)(values, values, step.count, step.scale);
  if (step.feedback == nullptr) return codec.encode({room, DType::kF32, key, {}}, frame);
  const std::span<float> lost{step.feedback, step.count};
  std::fill(lost.begin(), lost.end(), 0.0F);
  const std::size_t bytes = codec.encode({room, DType::kF32, key, lost}, frame);
  if (step.scale == 0) {
    std::copy_n(step.residual, step.count, step.feedback);
  } else {
    share_kernel(DType::kF32)(step.feedback, step.count, step.scale);
  }
  return bytes;
}

void encode(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec,
            compress::RoundingKey key) {
  if (step.scale != 1) {
    key.chunk = step.chunk;
    memory.frame_bytes = encode_scaled(step, memory, codec, key);
    return;
  }
  std::span<float> residual;
  if (step.feedback != nullptr) {
    residual = {step.feedback, step.count};
    std::copy_n(step.residual, step.count, step.feedback);
  }
  key.chunk = step.chunk;
  const std::byte* from = memory.src;
  DType dtype = step.dtype;
  if (codec.spec().lossless && dtype != step.encoded) {
    // The source is a sum in f32. It is rounded before encoding, so that its owner uses the same
    // values as the frame.
    dtype = step.encoded;
    narrow(step.count, from, dtype, memory.unpacked.data());
    from = memory.unpacked.data();
  }
  const compress::EncodeRequest request{
      {from, step.count * dtype_bytes(dtype)}, dtype, key, residual};
  const std::size_t bytes = codec.encode(request, {memory.dst, memory.frame_bytes});
  CHECK(bytes == memory.frame_bytes || !codec.spec().fixed_size);
  memory.frame_bytes = bytes;
  if (step.sum_residual != nullptr) add_error(step, memory, codec);
}

// The elements of a lossless frame; an error unless all of them are valid.
Result<std::span<const std::byte>> unpack(const CodeStep& step, const CodeMemory& memory,
                                          const compress::Codec& codec) {
  const std::uint64_t bytes = step.count * dtype_bytes(step.encoded);
  if (step.plain) return std::span<const std::byte>(memory.src, bytes);
  const auto elements = memory.unpacked.first(bytes);
  TRY(codec.decode(frame_of(memory), step.encoded, elements));
  return std::span<const std::byte>(elements);
}

Status decode_lossless(const CodeStep& step, const CodeMemory& memory,
                       const compress::Codec& codec) {
  const auto elements = unpack(step, memory, codec);
  if (!elements.is_ok()) return elements.status();
  if (step.dtype == step.encoded) {
    if (memory.dst == elements.value().data()) return Status::ok();  // in place
    copy_bytes(memory.dst, elements.value().data(), elements.value().size());
    return Status::ok();
  }
  return half_of(step.encoded)
      .decode(elements.value(), step.dtype, {memory.dst, step.count * sizeof(float)});
}

Status add_lossless(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec,
                    std::span<float> sum) {
  const auto elements = unpack(step, memory, codec);
  if (!elements.is_ok()) return elements.status();
  if (step.encoded != DType::kF32) {
    return half_of(step.encoded).decode_add(elements.value(), sum);
  }
  reduce_kernel(DType::kF32, ReduceOp::kSum)(memory.dst, memory.dst, elements.value().data(),
                                             step.count);
  return Status::ok();
}

Status decode_add(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec) {
  const std::span<float> sum{reinterpret_cast<float*>(memory.dst), step.count};
  TRY(codec.spec().lossless ? add_lossless(step, memory, codec, sum)
                            : codec.decode_add(frame_of(memory), sum));
  if (step.divide != nullptr) step.divide(memory.dst, step.count, step.divisor);
  if (step.share != nullptr) step.share(memory.dst, step.count, step.total);
  return Status::ok();
}

}  // namespace

Status run_code(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec,
                compress::RoundingKey key) {
  if (step.count == 0) return Status::ok();
  switch (step.kind) {
    case CodeKind::kEncode: encode(step, memory, codec, key); break;
    case CodeKind::kDecode:
      if (codec.spec().lossless) return decode_lossless(step, memory, codec);
      return codec.decode(frame_of(memory), step.dtype,
                          {memory.dst, step.count * dtype_bytes(step.dtype)});
    case CodeKind::kDecodeAdd: return decode_add(step, memory, codec);
    case CodeKind::kNarrow: narrow(step.count, memory.src, step.dtype, memory.dst); break;
  }
  return Status::ok();
}

}  // namespace holdfast::comm
