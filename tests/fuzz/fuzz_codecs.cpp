// Frames as a peer might send them, to every decoder; and the same bytes as a tensor, there and
// back. The first eight bytes choose codec, options, level and count.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "compress/codec.h"

namespace {

using namespace holdfast;
using namespace holdfast::compress;

struct Choice {
  std::uint8_t codec;
  std::uint8_t options;
  std::uint8_t level;
  std::uint8_t dtype;
  std::uint16_t count;
  std::uint16_t ratio;
};
static_assert(sizeof(Choice) == 8);

CodecOptions options_of(const Choice& choice) {
  CodecOptions options;
  options.block = 32U * (1U + (choice.options & 15U));
  if ((choice.options & 16U) != 0) options.grid = Grid::kMinMax;
  if ((choice.options & 32U) != 0) options.rounding = Rounding::kStochastic;
  if ((choice.options & 64U) != 0) options.sign_scale = SignScale::kL1;
  if ((choice.options & 128U) != 0) options.tier = Tier::kDense;
  options.ratio = (choice.ratio + 1.0) / 65536.0;
  return options;
}

// Whatever it is, it is refused or read, within bounds.
void read_frame(const Codec& codec, DType dtype, std::size_t count,
                std::span<const std::byte> frame) {
  std::vector<std::byte> out(count * dtype_bytes(dtype));
  const Status decoded = codec.decode(frame, dtype, out);
  if (!decoded.is_ok() && decoded.code() != Code::kProtocolError) __builtin_trap();
  std::vector<float> sum(count);
  const Status added = codec.decode_add(frame, sum);
  if (!added.is_ok() && added.code() != Code::kProtocolError) __builtin_trap();
  if (!codec.spec().lossless && decoded.is_ok() != added.is_ok()) __builtin_trap();
}

void there_and_back(const Codec& codec, DType dtype, std::span<const std::byte> bytes) {
  const std::size_t count = bytes.size() / dtype_bytes(dtype);
  const auto input = bytes.first(count * dtype_bytes(dtype));
  std::vector<float> residual(codec.spec().takes_residual ? count : 0, 0.25F);
  auto same = residual;
  std::vector<std::byte> frame(codec.encoded_bound(dtype, count));
  frame.resize(codec.encode({input, dtype, {1, 2, 3}, residual}, frame));
  std::vector<std::byte> again(codec.encoded_bound(dtype, count));
  const Codec reference = codec.at(CpuLevel::kReference);
  again.resize(reference.encode({input, dtype, {1, 2, 3}, same}, again));
  if (frame != again) __builtin_trap();
  if (!std::ranges::equal(std::as_bytes(std::span(residual)), std::as_bytes(std::span(same)))) {
    __builtin_trap();
  }
  std::vector<std::byte> out(input.size());
  if (!codec.decode(frame, dtype, out).is_ok()) __builtin_trap();
  if (codec.spec().lossless && !std::ranges::equal(out, input)) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choice choice{};
  if (size < sizeof choice) return 0;
  std::memcpy(&choice, data, sizeof choice);
  const auto rows = catalogue();
  const auto made = Codec::make(rows[choice.codec % rows.size()].spec.name, options_of(choice));
  if (!made.is_ok()) return 0;
  const auto level = static_cast<CpuLevel>(choice.level % kCpuLevelCount);
  if (!has_cpu_level(level)) return 0;
  const Codec codec = made.value().at(level);
  const auto dtype = static_cast<DType>(choice.dtype % kDTypeCount);
  if (!codec.takes(dtype)) return 0;
  // A copy of its own: a read beyond its end is then seen.
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(sizeof choice);
  const std::vector<std::byte> frame(bytes.begin(), bytes.end());
  read_frame(codec, dtype, choice.count, frame);
  there_and_back(codec, dtype, frame);
  return 0;
}
