#include "comm/engine/coding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/check.h"

namespace holdfast::comm {
namespace {

std::span<const std::byte> frame_of(const CodeMemory& memory) {
  return {memory.src, memory.frame_bytes};
}

// Whoever owns a sum owes what its frame does not say, as part of its own next input.
void add_error(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec) {
  const std::span<float> sum{step.sum, step.count};
  for (float& x : sum) x = -x;
  CHECK(codec.decode_add({memory.dst, memory.frame_bytes}, sum).is_ok());
  const auto times = static_cast<float>(step.divisor);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    // A block that is not a number owes nothing.
    if (std::isfinite(sum[i])) step.owed[i] -= times * sum[i];
  }
}

void encode(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec,
            compress::Key key) {
  std::span<float> residual;
  if (step.feedback != nullptr) {
    residual = {step.feedback, step.count};
    std::copy_n(step.residual, step.count, step.feedback);
  }
  key.chunk = step.chunk;
  const compress::EncodeRequest request{
      {memory.src, step.count * dtype_bytes(step.dtype)}, step.dtype, key, residual};
  const std::size_t bytes = codec.encode(request, {memory.dst, memory.frame_bytes});
  CHECK(bytes == memory.frame_bytes);
  if (step.owed != nullptr) add_error(step, memory, codec);
}

Status decode_add(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec) {
  const std::span<float> sum{reinterpret_cast<float*>(memory.dst), step.count};
  TRY(codec.decode_add(frame_of(memory), sum));
  if (step.divide != nullptr) step.divide(memory.dst, step.count, step.divisor);
  return Status::ok();
}

// A half codec's frame is its elements: to encode is to round.
void narrow(const CodeStep& step, const CodeMemory& memory) {
  if (step.dtype == DType::kF32) {
    std::memcpy(memory.dst, memory.src, step.count * sizeof(float));
    return;
  }
  const auto half = compress::Codec::make(step.dtype == DType::kBF16 ? "bf16" : "fp16");
  CHECK(half.is_ok());
  half.value().encode({{memory.src, step.count * sizeof(float)}, DType::kF32, {}, {}},
                      {memory.dst, step.count * dtype_bytes(step.dtype)});
}

}  // namespace

Status run_code(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec,
                compress::Key key) {
  if (step.count == 0) return Status::ok();
  switch (step.kind) {
    case CodeKind::kEncode: encode(step, memory, codec, key); break;
    case CodeKind::kDecode:
      return codec.decode(frame_of(memory), step.dtype,
                          {memory.dst, step.count * dtype_bytes(step.dtype)});
    case CodeKind::kDecodeAdd: return decode_add(step, memory, codec);
    case CodeKind::kNarrow: narrow(step, memory); break;
  }
  return Status::ok();
}

}  // namespace holdfast::comm
