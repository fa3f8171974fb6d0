// The first 16 bytes of a lossless frame: its kind and its number of elements.
// Why: docs/decisions/0045-lossless-frames-check-themselves.md
#pragma once

#include <cstring>
#include <span>
#include <string>

#include "base/checksum.h"
#include "base/result.h"

namespace holdfast::compress {

struct CodecHeader {
  std::uint32_t kind;
  std::uint32_t detail;  // zstd: a checksum of the elements; bfloat: elements of a block
  std::uint64_t count;
};
inline constexpr std::size_t kHeaderBytes = sizeof(CodecHeader);
static_assert(kHeaderBytes == 16);

inline Status damaged(const std::string& what) {
  return {Code::kProtocolError, "compression: " + what};
}

inline void write_header(const CodecHeader& header, std::span<std::byte> frame) {
  std::memcpy(frame.data(), &header, kHeaderBytes);
}

// Reads the header and checks that its count is `count`; the caller checks kind and detail.
inline Result<CodecHeader> read_header(std::span<const std::byte> frame, std::uint64_t count) {
  if (frame.size() < kHeaderBytes) return damaged("a frame that is shorter than its header");
  CodecHeader header{};
  std::memcpy(&header, frame.data(), kHeaderBytes);
  if (header.count != count) {
    return damaged("a frame of " + std::to_string(header.count) + " elements, not " +
                   std::to_string(count));
  }
  return header;
}

}  // namespace holdfast::compress
