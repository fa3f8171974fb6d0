// libzstd, without its types. One thread uses a coder, for all blocks of a call: making one costs
// more than coding a small block.
// Why: docs/decisions/0046-libzstd-where-the-build-finds-it.md
#pragma once

#include <cstddef>
#include <span>

namespace holdfast::compress {

// Whether this build has libzstd. Without it the coders below always fail.
bool has_zstd();

// Whether the encoder looks for repetitions and frequencies, or for frequencies alone (a Huffman
// code), for data whose order is noise.
enum class Repetitions : bool { kFind, kIgnore };

class ZstdEncoder {
 public:
  ZstdEncoder(int level, Repetitions repetitions);
  ~ZstdEncoder();
  ZstdEncoder(const ZstdEncoder&) = delete;
  ZstdEncoder& operator=(const ZstdEncoder&) = delete;

  // Returns the size in `to`, or 0 when it does not fit.
  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to);

 private:
  void* context_;
};

class ZstdDecoder {
 public:
  ZstdDecoder();
  ~ZstdDecoder();
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;

  // Whether `from` was the encoding of exactly as many bytes as `to` has room for.
  bool decode(std::span<const std::byte> from, std::span<std::byte> to);

 private:
  void* context_ = nullptr;  // made when first used
};

}  // namespace holdfast::compress
