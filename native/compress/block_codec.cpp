#include "compress/block_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/check.h"
#include "compress/block_layout.h"

namespace holdfast::compress {
namespace {

BlockLayout layout_of(const Setup& setup, std::uint64_t count) {
  return {setup.options.block, format_of(setup.id, setup.options), count};
}

// A copy of a partial last block, because the loops read and write whole blocks.
struct Tail {
  std::array<float, kGreatestBlock> values{};
  std::array<float, kGreatestBlock> residual{};
  std::array<std::byte, kGreatestBlock * 2> payload{};
};

void encode_tail(const BlockKernels& kernels, EncodeRun run, const BlockLayout& layout,
                 bool pad_zero) {
  Tail tail;
  const std::uint32_t live = run.live;
  std::memcpy(tail.values.data(), run.input, live * sizeof(float));
  float* const residual = run.residual;
  if (residual != nullptr) std::copy_n(residual, live, tail.residual.begin());
  if (!pad_zero) {  // a zero could widen the block's range
    std::fill(tail.values.begin() + live, tail.values.end(), tail.values[0]);
    std::fill(tail.residual.begin() + live, tail.residual.end(), tail.residual[0]);
  }
  std::byte* const payload = run.payload;
  run.input = reinterpret_cast<const std::byte*>(tail.values.data());
  run.residual = residual != nullptr ? tail.residual.data() : nullptr;
  run.payload = tail.payload.data();
  kernels.encode(run);
  const std::size_t bytes = layout.bytes(live);
  const std::uint32_t rest = live * layout.format.bits % 8;
  if (rest != 0) tail.payload[bytes - 1] &= static_cast<std::byte>((1U << rest) - 1);
  std::memcpy(payload, tail.payload.data(), bytes);
  if (residual != nullptr) std::copy_n(tail.residual.begin(), live, residual);
}

void decode_tail(const BlockKernels& kernels, DecodeRun run, const BlockLayout& layout,
                 std::uint32_t live, bool add) {
  Tail tail;
  std::memcpy(tail.payload.data(), run.payload, layout.bytes(live));
  float* const out = run.out;
  run.payload = tail.payload.data();
  run.out = tail.values.data();
  kernels.decode(run);
  if (add) {
    for (std::uint32_t i = 0; i < live; ++i) out[i] = out[i] + tail.values[i];
  } else {
    std::memcpy(out, tail.values.data(), live * sizeof(float));
  }
}

// Decodes elements [first, first + n) of the frame; n is one run at most.
void decode_part(const BlockKernels& kernels, const BlockLayout& layout, const std::byte* frame,
                 std::uint64_t first, std::uint64_t n, float* out, bool add) {
  const std::uint64_t whole = n / layout.block;
  DecodeRun run{frame + layout.scales_at(first), frame + layout.payload_at(first), whole,
                layout.block, out};
  if (whole > 0) (add ? kernels.decode_add : kernels.decode)(run);
  const std::uint64_t done = whole * layout.block;
  if (done == n) return;
  run = {frame + layout.scales_at(first + done), frame + layout.payload_at(first + done), 1,
         layout.block, out + done};
  decode_tail(kernels, run, layout, static_cast<std::uint32_t>(n - done), add);
}

Status check_size(const BlockLayout& layout, std::span<const std::byte> frame) {
  if (frame.size() == layout.size()) return Status::ok();
  return {Code::kProtocolError, "compression: a frame of " + std::to_string(frame.size()) +
                                    " bytes, " + std::to_string(layout.count) + " elements have " +
                                    std::to_string(layout.size())};
}

CodecId halves_of(DType dtype) { return dtype == DType::kBF16 ? CodecId::kBf16 : CodecId::kFp16; }

}  // namespace

Format format_of(CodecId id, const CodecOptions& options) {
  const std::uint32_t grid_bytes = options.grid == Grid::kMinMax ? 8 : 4;
  switch (id) {
    case CodecId::kBf16:
    case CodecId::kFp16: return {0, 16};
    case CodecId::kFp8E4M3:
    case CodecId::kFp8E5M2: return {1, 8};
    case CodecId::kInt8: return {grid_bytes, 8};
    case CodecId::kInt4: return {grid_bytes, 4};
    case CodecId::kOnebit: return {4, 1};
    default: break;
  }
  check_failed("a codec of blocks", __FILE__, __LINE__);
}

std::uint64_t key_base(const RoundingKey& key) {
  return mix(mix(mix(key.seed) ^ key.op) ^ key.chunk);
}

// The frame of a half codec is just its elements, so widening is decoding.
void widen(CpuLevel level, DType dtype, const std::byte* from, float* to, std::uint64_t count) {
  const Setup setup{halves_of(dtype), {}, level};
  const BlockKernels kernels = block_kernels(level, setup.id, setup.options);
  decode_part(kernels, layout_of(setup, count), from, 0, count, to, false);
}

void narrow(CpuLevel level, DType dtype, const float* from, std::byte* to, std::uint64_t count) {
  const Setup setup{halves_of(dtype), {}, level};
  block_encode(setup, {std::as_bytes(std::span(from, count)), DType::kF32, {}, {}},
               {to, count * dtype_bytes(dtype)});
}

std::size_t block_bound(const Setup& setup, DType, std::uint64_t count) {
  return layout_of(setup, count).size();
}

std::size_t block_encode(const Setup& setup, const EncodeRequest& request,
                         std::span<std::byte> out) {
  const std::size_t element = dtype_bytes(request.dtype);
  const BlockLayout layout = layout_of(setup, request.input.size() / element);
  const BlockKernels kernels = block_kernels(setup.level, setup.id, setup.options);
  const std::uint64_t base = key_base(request.key);
  std::array<float, kRunElements> tile;
  for (std::uint64_t first = 0; first < layout.count; first += layout.run()) {
    const std::uint64_t n = std::min(layout.run(), layout.count - first);
    const std::byte* input = request.input.data() + first * element;
    if (request.dtype != DType::kF32) {
      widen(setup.level, request.dtype, input, tile.data(), n);
      input = reinterpret_cast<const std::byte*>(tile.data());
    }
    const std::uint64_t key = key_of(base, first);
    EncodeRun run{.input = input,
                  .residual = request.residual.empty() ? nullptr : &request.residual[first],
                  .blocks = n / layout.block,
                  .block = layout.block,
                  .live = layout.block,
                  .scales = out.data() + layout.scales_at(first),
                  .payload = out.data() + layout.payload_at(first),
                  .first = static_cast<std::uint32_t>(first),
                  .key_low = static_cast<std::uint32_t>(key),
                  .key_high = static_cast<std::uint32_t>(key >> 32)};
    if (run.blocks > 0) kernels.encode(run);
    const std::uint64_t done = run.blocks * layout.block;
    if (done == n) continue;
    run.input += done * sizeof(float);
    if (run.residual != nullptr) run.residual += done;
    run.blocks = 1;
    run.live = static_cast<std::uint32_t>(n - done);
    run.scales = out.data() + layout.scales_at(first + done);
    run.payload = out.data() + layout.payload_at(first + done);
    run.first += static_cast<std::uint32_t>(done);
    encode_tail(kernels, run, layout, setup.id == CodecId::kOnebit);
  }
  return layout.size();
}

Status block_decode(const Setup& setup, std::span<const std::byte> frame, DType dtype,
                    std::span<std::byte> out) {
  const std::size_t element = dtype_bytes(dtype);
  const BlockLayout layout = layout_of(setup, out.size() / element);
  TRY(check_size(layout, frame));
  const BlockKernels kernels = block_kernels(setup.level, setup.id, setup.options);
  std::array<float, kRunElements> tile;
  for (std::uint64_t first = 0; first < layout.count; first += layout.run()) {
    const std::uint64_t n = std::min(layout.run(), layout.count - first);
    std::byte* const to = out.data() + first * element;
    if (dtype == DType::kF32) {
      decode_part(kernels, layout, frame.data(), first, n, reinterpret_cast<float*>(to), false);
    } else {
      decode_part(kernels, layout, frame.data(), first, n, tile.data(), false);
      narrow(setup.level, dtype, tile.data(), to, n);
    }
  }
  return Status::ok();
}

Status block_decode_add(const Setup& setup, std::span<const std::byte> frame,
                        std::span<float> sum) {
  const BlockLayout layout = layout_of(setup, sum.size());
  TRY(check_size(layout, frame));
  const BlockKernels kernels = block_kernels(setup.level, setup.id, setup.options);
  for (std::uint64_t first = 0; first < layout.count; first += layout.run()) {
    const std::uint64_t n = std::min(layout.run(), layout.count - first);
    decode_part(kernels, layout, frame.data(), first, n, &sum[first], true);
  }
  return Status::ok();
}

}  // namespace holdfast::compress
