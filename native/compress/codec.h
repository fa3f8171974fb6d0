// Wire codecs: pure functions from elements to frames and back. They know nothing of ranks and
// collectives, and make the same bytes on every machine.
//
// Elements. Lossy codecs take f32, bf16 and f16 (widened to f32, and rounded to nearest even when
// decoded); zstd takes every dtype, bfloat takes bf16. decode_add() adds in f32; it takes any lossy
// frame, a zstd frame of f32, and a bfloat frame. Zero elements are a frame like any other.
//
// Blocks. int8, int4, fp8 and onebit have one scale per `block` elements; the last block may be
// shorter. Frames of lossy codecs have no header and a size that the count alone decides. Both ends
// know count, codec and options; nothing in a frame is trusted.
//
// Not a number. A block with a NaN or an infinity decodes to NaN as a whole (bf16, fp16 and topk:
// that element stays NaN or infinite), so that a gradient that has diverged is not healed silently.
// Its residual becomes 0. fp16 and bf16 round values beyond their range to infinity.
//
// Error feedback. With a residual, input + residual is encoded, and the residual becomes the part
// of this sum that the frame loses, in the same pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "compress/loops/kernels.h"
#include "compress/options.h"

namespace holdfast::compress {

// Stochastic rounding depends on this key and the element's index only: the same key gives the same
// bytes.
struct RoundingKey {
  std::uint64_t seed = 0;
  std::uint64_t op = 0;
  std::uint64_t chunk = 0;
};

struct EncodeRequest {
  std::span<const std::byte> input;
  DType dtype = DType::kF32;
  RoundingKey key;
  std::span<float> residual;  // empty, or one per element; lossy codecs only
};

struct CodecSpec {
  CodecId id;
  std::string_view name;
  bool lossless;
  bool takes_residual;
  bool fixed_size;               // encoded_bound() is the size
  std::string_view error_bound;  // for one element x; "scale" is the block's
  CodecUses uses{};
};

// A codec, its options and the instruction level it runs at.
struct Setup {
  CodecId id;
  CodecOptions options;
  CpuLevel level;
};

inline constexpr std::size_t kMostCodecText = 40;

struct CodecRow {
  CodecSpec spec;
  bool (*takes)(DType);
  std::size_t (*bound)(const Setup&, DType, std::uint64_t count);
  std::size_t (*encode)(const Setup&, const EncodeRequest&, std::span<std::byte> out);
  Status (*decode)(const Setup&, std::span<const std::byte> frame, DType, std::span<std::byte> out);
  Status (*decode_add)(const Setup&, std::span<const std::byte> frame, std::span<float> sum);
};

// Every codec of this build, in the order of CodecId.
std::span<const CodecRow> catalogue();
// nullptr when no codec has this name.
const CodecRow* find(std::string_view name);

// A codec with its options, as a value. Any thread may call every method.
class Codec {
 public:
  // Code::kConfigError when the name or an option cannot be used; the message says what can.
  static Result<Codec> make(std::string_view name, const CodecOptions& options = {});
  // Parses the form of text(), or a name alone; options that are missing are those of
  // default_options().
  static Result<Codec> parse(std::string_view text);
  // This codec at another instruction level, which the processor must have; for tests.
  Codec at(CpuLevel level) const;

  const CodecSpec& spec() const { return row_->spec; }
  const CodecOptions& options() const { return setup_.options; }
  bool takes(DType dtype) const { return row_->takes(dtype); }
  // The name and the chosen options, as in "int8(block=128,stochastic)": equal for codecs that make
  // the same frames. At most kMostCodecText characters.
  std::string text() const;

  // The greatest size of a frame of `count` elements; the size of all of them if fixed_size.
  std::size_t encoded_bound(DType dtype, std::uint64_t count) const;
  // Returns the frame's size. `out` holds encoded_bound() bytes at least.
  std::size_t encode(const EncodeRequest& request, std::span<std::byte> out) const;
  // Code::kProtocolError for a frame that cannot be one of so many elements; `out` may be partly
  // written then.
  Status decode(std::span<const std::byte> frame, DType dtype, std::span<std::byte> out) const;
  Status decode_add(std::span<const std::byte> frame, std::span<float> sum) const;

 private:
  Codec(const CodecRow* row, const Setup& setup) : row_(row), setup_(setup) {}

  const CodecRow* row_;
  Setup setup_;
};

}  // namespace holdfast::compress
