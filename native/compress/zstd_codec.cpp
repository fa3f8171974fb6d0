#include "compress/zstd_codec.h"

#include <cstring>
#include <vector>

#include "compress/frame_header.h"
#include "compress/zstd_bytes.h"

namespace holdfast::compress {
namespace {

constexpr std::uint32_t kPacked = 0x315a6648U;  // "HfZ1"
constexpr std::uint32_t kPlain = 0x305a6648U;   // "HfZ0"

}  // namespace

std::size_t zstd_bound(const Setup&, DType dtype, std::uint64_t count) {
  return kHeaderBytes + count * dtype_bytes(dtype);
}

std::size_t zstd_encode(const Setup& setup, const EncodeRequest& request,
                        std::span<std::byte> out) {
  const auto input = request.input;
  const std::uint64_t count = input.size() / dtype_bytes(request.dtype);
  const auto body = out.subspan(kHeaderBytes, input.size());
  ZstdEncoder encoder(setup.options.zstd_level, Repetitions::kFind);
  const std::size_t size = encoder.encode(input, body);
  const std::uint32_t kind = size > 0 ? kPacked : kPlain;
  if (size == 0 && !input.empty()) std::memcpy(body.data(), input.data(), input.size());
  write_header({kind, checksum(input, kind), count}, out);
  return kHeaderBytes + (size > 0 ? size : input.size());
}

Status zstd_decode(const Setup&, std::span<const std::byte> frame, DType dtype,
                   std::span<std::byte> out) {
  const auto header = read_header(frame, out.size() / dtype_bytes(dtype));
  if (!header.is_ok()) return header.status();
  const std::uint32_t kind = header.value().kind;
  const auto body = frame.subspan(kHeaderBytes);
  if (kind == kPacked) {
    if (ZstdDecoder decoder; !decoder.decode(body, out)) return damaged("zstd cannot read a frame");
  } else if (kind == kPlain && body.size() == out.size()) {
    if (!out.empty()) std::memcpy(out.data(), body.data(), out.size());
  } else {
    return damaged("a frame that is none of zstd's");
  }
  if (checksum(out, kind) != header.value().detail) return damaged("a zstd frame's checksum");
  return Status::ok();
}

Status zstd_decode_add(const Setup& setup, std::span<const std::byte> frame, std::span<float> sum) {
  std::vector<float> values(sum.size());
  TRY(zstd_decode(setup, frame, DType::kF32, std::as_writable_bytes(std::span(values))));
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + values[i];
  return Status::ok();
}

}  // namespace holdfast::compress
