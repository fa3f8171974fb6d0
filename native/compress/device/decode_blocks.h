// Frames of the codecs with scales, read on the device: four neighbours to a thread, at any
// alignment.
#pragma once

#include "compress/block_layout.h"
#include "compress/device/codec.h"
#include "compress/device/formats.h"
#include "compress/device/quads.h"
#include "compress/device/values.h"
#include "device/simt.h"

namespace holdfast::compress {
namespace {

using device::Thread;

// Finds an element's block, by a shift where the block is a power of two: a division takes longer
// than all the rest.
struct BlockFinder {
  std::uint32_t block;
  std::uint32_t shift = 0;
  HOLDFAST_DEVICE explicit BlockFinder(std::uint32_t elements) : block(elements) {
    if ((block & (block - 1)) != 0) return;
    while (block >> shift != 1) ++shift;
  }
  HOLDFAST_DEVICE std::uint64_t of(std::uint64_t i) const {
    return shift != 0 ? i >> shift : i / block;
  }
};

// Four neighbours, which are of one block, to a thread.
template <class Codec>
HOLDFAST_DEVICE void decode_quads(const Thread& thread, const DeviceDecode& a,
                                  const std::byte* payload, std::uint64_t quad,
                                  const BlockFinder& blocks, bool is_out_aligned) {
  constexpr std::uint32_t kBits = Codec::kFormat.bits;
  const std::uint64_t quads = a.count / kQuad;
  const bool is_aligned = fits(payload, kCodesBytes<kBits>);
  std::uint32_t codes[kQuadsAhead];
  typename Codec::Scale scale[kQuadsAhead];
  RawQuad sum[kQuadsAhead];
  HOLDFAST_UNROLL
  for (std::uint32_t j = 0; j < kQuadsAhead; ++j) {
    const std::uint64_t q = quad + j * thread.stride();
    if (q >= quads) break;
    codes[j] = load_codes<kBits>(payload, kQuad * q, is_aligned);
    scale[j] = Codec::load_scale(a.frame + blocks.of(kQuad * q) * Codec::kFormat.scale_bytes);
    if (a.add != 0) sum[j] = load_wide(a.out, kQuad * q, is_out_aligned);
  }
  HOLDFAST_UNROLL
  for (std::uint32_t j = 0; j < kQuadsAhead; ++j) {
    const std::uint64_t q = quad + j * thread.stride();
    if (q >= quads) break;
    Quad out;
    HOLDFAST_UNROLL
    for (std::uint32_t k = 0; k < kQuad; ++k) {
      out.value[k] = Codec::decode(Codec::from_bits(code_at<kBits>(codes[j], k)), scale[j]);
      if (a.add != 0) out.value[k] = as_float(sum[j].word[k]) + out.value[k];
    }
    store_quad(a.out, a.elements, kQuad * q, out, is_out_aligned);
  }
}

template <class Codec>
HOLDFAST_DEVICE void decode_blocks(const Thread& thread, const DeviceDecode& a) {
  constexpr std::uint32_t kBits = Codec::kFormat.bits;
  const std::byte* const payload = a.frame + layout_of<Codec>(a.block, a.count).payload_at(0);
  const BlockFinder blocks(a.block);
  const bool is_out_aligned = QuadsOf(a.out, a.elements).is_aligned;
  const std::uint64_t quads = a.count / kQuad;
  for (std::uint64_t q = thread.global(); q < quads; q += kQuadsAhead * thread.stride()) {
    decode_quads<Codec>(thread, a, payload, q, blocks, is_out_aligned);
  }
  const std::uint64_t i = kQuad * quads + thread.global();
  if (i >= a.count) return;
  const std::uint32_t bits = static_cast<std::uint32_t>(payload[i * kBits / 8]) >> (i * kBits % 8);
  const auto scale = Codec::load_scale(a.frame + blocks.of(i) * Codec::kFormat.scale_bytes);
  decode_one(a, i, Codec::decode(Codec::from_bits(code_at<kBits>(bits, 0)), scale));
}

}  // namespace
}  // namespace holdfast::compress
