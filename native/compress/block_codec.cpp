#include "compress/block_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/check.h"

namespace holdfast::compress {
namespace {

// Elements that are widened at a time: 32 KiB of f32 stay in the first cache beside what they
// become.
constexpr std::uint32_t kRunElements = 8192;

struct Format {
  std::uint32_t scale_bytes;
  std::uint32_t bits;
};

Format format_of(const Setup& setup) {
  const std::uint32_t grid_bytes = setup.options.grid == Grid::kMinMax ? 8 : 4;
  switch (setup.id) {
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

// Where the parts of a frame are.
struct Layout {
  std::uint32_t block;
  Format format;
  std::uint64_t count;

  Layout(const Setup& setup, std::uint64_t elements)
      : block(setup.options.block), format(format_of(setup)), count(elements) {}
  std::size_t scales_at(std::uint64_t element) const {
    return element / block * format.scale_bytes;
  }
  std::size_t payload_at(std::uint64_t element) const {
    return (count + block - 1) / block * format.scale_bytes + element * format.bits / 8;
  }
  std::size_t bytes(std::uint64_t elements) const { return (elements * format.bits + 7) / 8; }
  std::size_t size() const { return payload_at(0) + bytes(count); }
  std::uint64_t run() const { return kRunElements / block * block; }
};

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;  // SplitMix64 (Steele, Lea and Flood, 2014)
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t key_of(const Key& key, std::uint64_t first) {
  return mix(mix(mix(mix(key.seed) ^ key.op) ^ key.chunk) ^ (first >> 32));
}

// A block that is not full, in memory of its own: the loops read and write whole ones.
struct Tail {
  std::array<float, kGreatestBlock> values{};
  std::array<float, kGreatestBlock> residual{};
  std::array<std::byte, kGreatestBlock * 2> payload{};
};

void encode_tail(const BlockKernels& kernels, EncodeRun run, const Layout& layout, bool pad_zero) {
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

void decode_tail(const BlockKernels& kernels, DecodeRun run, const Layout& layout,
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

// Elements [first, first + n) of the frame; n is one run at most.
void decode_part(const BlockKernels& kernels, const Layout& layout, const std::byte* frame,
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

Status check_size(const Layout& layout, std::span<const std::byte> frame) {
  if (frame.size() == layout.size()) return Status::ok();
  return {Code::kProtocolError, "compression: a frame of " + std::to_string(frame.size()) +
                                    " bytes, " + std::to_string(layout.count) + " elements have " +
                                    std::to_string(layout.size())};
}

CodecId halves_of(DType dtype) { return dtype == DType::kBF16 ? CodecId::kBf16 : CodecId::kFp16; }

}  // namespace

// A half codec's frame is its elements: widening them is decoding it.
void widen(Level level, DType dtype, const std::byte* from, float* to, std::uint64_t count) {
  const Setup setup{halves_of(dtype), {}, level};
  const BlockKernels kernels = block_kernels(level, setup.id, setup.options);
  decode_part(kernels, Layout(setup, count), from, 0, count, to, false);
}

void narrow(Level level, DType dtype, const float* from, std::byte* to, std::uint64_t count) {
  const Setup setup{halves_of(dtype), {}, level};
  block_encode(setup, {std::as_bytes(std::span(from, count)), DType::kF32, {}, {}},
               {to, count * dtype_bytes(dtype)});
}

std::size_t block_bound(const Setup& setup, DType, std::uint64_t count) {
  return Layout(setup, count).size();
}

std::size_t block_encode(const Setup& setup, const EncodeRequest& request,
                         std::span<std::byte> out) {
  const std::size_t element = dtype_bytes(request.dtype);
  const Layout layout(setup, request.input.size() / element);
  const BlockKernels kernels = block_kernels(setup.level, setup.id, setup.options);
  std::array<float, kRunElements> tile;
  for (std::uint64_t first = 0; first < layout.count; first += layout.run()) {
    const std::uint64_t n = std::min(layout.run(), layout.count - first);
    const std::byte* input = request.input.data() + first * element;
    if (request.dtype != DType::kF32) {
      widen(setup.level, request.dtype, input, tile.data(), n);
      input = reinterpret_cast<const std::byte*>(tile.data());
    }
    const std::uint64_t key = key_of(request.key, first);
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
  const Layout layout(setup, out.size() / element);
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
  const Layout layout(setup, sum.size());
  TRY(check_size(layout, frame));
  const BlockKernels kernels = block_kernels(setup.level, setup.id, setup.options);
  for (std::uint64_t first = 0; first < layout.count; first += layout.run()) {
    const std::uint64_t n = std::min(layout.run(), layout.count - first);
    decode_part(kernels, layout, frame.data(), first, n, &sum[first], true);
  }
  return Status::ok();
}

}  // namespace holdfast::compress
