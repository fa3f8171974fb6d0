#include "compress/bfloat.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "compress/block_codec.h"
#include "compress/frame_header.h"
#include "compress/zstd_bytes.h"

namespace holdfast::compress {
namespace {

constexpr std::uint32_t kKind = 0x31426648U;  // "HfB1"
constexpr std::uint64_t kGroupElements = 32;
constexpr std::uint64_t kCodeBytes = 12;  // of a group
// Elements of a block: few enough for the first cache, many enough for 8 bytes of header to be
// nothing (0.05 %). Huffman codes want more to learn from.
constexpr std::uint64_t kFastBlock = 8192;
constexpr std::uint64_t kDenseBlock = 32768;
constexpr std::uint64_t kSampleRuns = 8;
constexpr std::uint64_t kSampleRun = 16;
constexpr std::uint64_t kSamples = kSampleRuns * kSampleRun;
constexpr std::uint32_t kWindow = 7;  // exponents that have a code

enum class BlockCoding : std::uint8_t { kRaw, kEncoded, kDense };

struct BlockHeader {
  BlockCoding coding;
  std::uint8_t base;
  std::uint16_t extra;  // encoded: escapes; dense: bytes of the exponents
  std::uint32_t check;
};
static_assert(sizeof(BlockHeader) == 8);

std::uint64_t block_of(const Setup& setup) {
  return setup.options.tier == Tier::kDense ? kDenseBlock : kFastBlock;
}

std::uint64_t groups_of(std::uint64_t n) { return (n + kGroupElements - 1) / kGroupElements; }

// Where it is, and what it says of itself, must be right, too.
std::uint32_t check_of(const BlockHeader& header, std::uint64_t index,
                       std::span<const std::byte> body) {
  const std::uint32_t says = static_cast<std::uint32_t>(header.coding) |
                             std::uint32_t{header.base} << 8 | std::uint32_t{header.extra} << 16;
  return checksum(body, says ^ (static_cast<std::uint32_t>(index) * 0x9e3779b9U));
}

std::uint32_t exponent_at(const std::byte* elements, std::uint64_t i) {
  std::uint16_t x = 0;
  std::memcpy(&x, elements + 2 * i, sizeof x);
  return x >> 7 & 0xffU;
}

// How often an exponent is in a sample; zeros between blocks.
using ExponentCounts = std::array<std::uint8_t, 256 + kWindow>;

// The first of the seven exponents that cover most of a sample.
std::uint8_t choose_base(const std::byte* elements, std::uint64_t n, ExponentCounts& seen) {
  std::uint32_t low = 255;
  std::uint32_t high = 0;
  const std::uint64_t samples = std::min(n, kSamples);
  for (std::uint64_t i = 0; i < samples; ++i) {
    // In runs of sixteen: few cache lines, from all over the block.
    const std::uint64_t at = n > kSamples ? i / kSampleRun * (n / kSampleRuns) + i % kSampleRun : i;
    const std::uint32_t exponent = exponent_at(elements, at);
    ++seen[exponent];
    low = std::min(low, exponent);
    high = std::max(high, exponent);
  }
  std::uint32_t covered = 0;
  for (std::uint32_t i = 0; i < kWindow; ++i) covered += seen[low + i];
  std::uint32_t most = covered;
  std::uint32_t base = low;
  for (std::uint32_t first = low + 1; first + kWindow <= high + 1; ++first) {
    covered += seen[first + kWindow - 1];
    covered -= seen[first - 1];
    if (covered > most) {
      most = covered;
      base = first;
    }
  }
  std::fill(seen.begin() + low, seen.begin() + high + 1, std::uint8_t{0});
  return static_cast<std::uint8_t>(base);
}

struct BfloatBlock {
  std::uint64_t index;
  std::uint64_t n;
  const std::byte* elements;
};

// Elements of the last group, the missing ones with the exponent `base`.
std::array<std::byte, 2 * kGroupElements> padded(const BfloatBlock& block, std::uint64_t from,
                                                 std::uint8_t base) {
  std::array<std::uint16_t, kGroupElements> group;
  group.fill(static_cast<std::uint16_t>(base << 7));
  std::memcpy(group.data(), block.elements + 2 * from, 2 * (block.n - from));
  return std::bit_cast<std::array<std::byte, 2 * kGroupElements>>(group);
}

// A block's body is put together in a cache's worth of memory, where its checksum is taken, too.
struct BfloatScratch {
  std::array<std::byte, 2 * kDenseBlock> body;
  ExponentCounts seen{};
  std::optional<ZstdEncoder> encoder;  // of the dense tier
};

// Returns the body's size and fills header in, or 0 when the block is better left raw.
std::size_t write_encoded(const ScanKernels& kernels, const BfloatBlock& block, BlockHeader& header,
                          BfloatScratch& scratch) {
  std::byte* const body = scratch.body.data();
  const std::uint64_t groups = groups_of(block.n);
  const auto most = static_cast<std::int64_t>(block.n - std::min(block.n, kCodeBytes * groups));
  header.base = choose_base(block.elements, block.n, scratch.seen);
  std::byte* const codes = body + block.n;
  std::byte* const escapes = codes + kCodeBytes * groups;
  const std::uint64_t whole = block.n / kGroupElements;
  std::uint64_t found =
      kernels.split({block.elements, whole, header.base, body, codes, escapes, most});
  if (found == kTooManyEscapes) return 0;
  if (whole < groups) {
    const auto group = padded(block, whole * kGroupElements, header.base);
    std::array<std::byte, kGroupElements> rest;
    const std::uint64_t more =
        kernels.split({group.data(), 1, header.base, rest.data(), codes + kCodeBytes * whole,
                       escapes + found, most - static_cast<std::int64_t>(found)});
    if (more == kTooManyEscapes) return 0;
    found += more;
    std::memcpy(body + whole * kGroupElements, rest.data(), block.n - whole * kGroupElements);
  }
  header.coding = BlockCoding::kEncoded;
  header.extra = static_cast<std::uint16_t>(found);
  return block.n + kCodeBytes * groups + found;
}

std::size_t write_dense(const ScanKernels& kernels, const BfloatBlock& block, BlockHeader& header,
                        BfloatScratch& scratch) {
  std::byte* const body = scratch.body.data();
  std::array<std::byte, kDenseBlock> exponents;
  const std::uint64_t whole = block.n / kGroupElements;
  kernels.part(block.elements, whole, body, exponents.data());
  if (whole * kGroupElements < block.n) {
    const auto group = padded(block, whole * kGroupElements, 0);
    std::array<std::byte, kGroupElements> rest;
    kernels.part(group.data(), 1, rest.data(), exponents.data() + whole * kGroupElements);
    std::memcpy(body + whole * kGroupElements, rest.data(), block.n - whole * kGroupElements);
  }
  const std::size_t size =
      scratch.encoder->encode(std::span(exponents).first(block.n), {body + block.n, block.n});
  if (size == 0) return 0;
  header.coding = BlockCoding::kDense;
  header.extra = static_cast<std::uint16_t>(size);
  return block.n + size;
}

std::size_t write_block(const Setup& setup, const ScanKernels& kernels, const BfloatBlock& block,
                        BfloatScratch& scratch, std::byte* out) {
  BlockHeader header{BlockCoding::kRaw, 0, 0, 0};
  std::size_t size = setup.options.tier == Tier::kDense
                         ? write_dense(kernels, block, header, scratch)
                         : write_encoded(kernels, block, header, scratch);
  const std::byte* body = scratch.body.data();
  if (size == 0) {
    header = {BlockCoding::kRaw, 0, 0, 0};
    size = 2 * block.n;
    body = block.elements;
  }
  header.check = check_of(header, block.index, {body, size});
  std::memcpy(out, &header, sizeof header);
  std::memcpy(out + sizeof header, body, size);
  return sizeof header + size;
}

bool read_encoded(const ScanKernels& kernels, std::uint64_t n, const BlockHeader& header,
                  const std::byte* body, std::byte* out) {
  const std::uint64_t groups = groups_of(n);
  const std::uint64_t whole = n / kGroupElements;
  const std::byte* const codes = body + n;
  std::array<std::byte, kFastBlock + kEscapeSlack> escapes;
  if (header.extra > kFastBlock) return false;
  std::memcpy(escapes.data(), codes + kCodeBytes * groups, header.extra);
  std::uint64_t used =
      kernels.join({body, codes, escapes.data(), header.extra, whole, header.base, out});
  if (used > header.extra) return false;
  if (whole < groups) {
    std::array<std::byte, kGroupElements> rest{};
    std::array<std::byte, 2 * kGroupElements> group;
    std::memcpy(rest.data(), body + whole * kGroupElements, n - whole * kGroupElements);
    const auto left = static_cast<std::int64_t>(header.extra - used);
    const std::uint64_t more =
        kernels.join({rest.data(), codes + kCodeBytes * whole, escapes.data() + used, left, 1,
                      header.base, group.data()});
    if (more == kTooManyEscapes) return false;
    used += more;
    std::memcpy(out + 2 * whole * kGroupElements, group.data(), 2 * (n - whole * kGroupElements));
  }
  return used == header.extra;
}

bool read_dense(const ScanKernels& kernels, std::uint64_t n, const BlockHeader& header,
                const std::byte* body, std::byte* out, ZstdDecoder& decoder) {
  std::array<std::byte, kDenseBlock> exponents;
  if (!decoder.decode({body + n, header.extra}, std::span(exponents).first(n))) return false;
  const std::uint64_t whole = n / kGroupElements;
  kernels.merge(body, exponents.data(), whole, out);
  if (whole * kGroupElements < n) {
    const std::uint64_t left = n - whole * kGroupElements;
    std::array<std::byte, kGroupElements> rest{};
    std::array<std::byte, kGroupElements> last{};
    std::array<std::byte, 2 * kGroupElements> group;
    std::memcpy(rest.data(), body + whole * kGroupElements, left);
    std::memcpy(last.data(), exponents.data() + whole * kGroupElements, left);
    kernels.merge(rest.data(), last.data(), 1, group.data());
    std::memcpy(out + 2 * whole * kGroupElements, group.data(), 2 * left);
  }
  return true;
}

// Size of a block's body; nothing when its header makes no sense.
std::size_t body_size(const BlockHeader& header, std::uint64_t n) {
  switch (header.coding) {
    case BlockCoding::kRaw: return 2 * n;
    case BlockCoding::kEncoded: return n + kCodeBytes * groups_of(n) + header.extra;
    case BlockCoding::kDense: return n + header.extra;
  }
  return SIZE_MAX;
}

bool read_body(const ScanKernels& kernels, std::uint64_t n, const BlockHeader& header,
               std::span<const std::byte> body, std::byte* out, ZstdDecoder& decoder) {
  switch (header.coding) {
    case BlockCoding::kRaw: std::memcpy(out, body.data(), body.size()); return true;
    case BlockCoding::kEncoded: return read_encoded(kernels, n, header, body.data(), out);
    case BlockCoding::kDense: return read_dense(kernels, n, header, body.data(), out, decoder);
  }
  return false;
}

// Decodes block after block to where `place(first, n)` says, and calls `done(first, n)`.
template <class Place, class Done>
Status read_blocks(const Setup& setup, std::span<const std::byte> frame, std::uint64_t count,
                   Place place, Done done) {
  const auto head = read_header(frame, count);
  if (!head.is_ok()) return head.status();
  if (head.value().kind != kKind) return damaged("a frame that is none of bfloat's");
  const std::uint64_t size = head.value().detail;
  if (size != kFastBlock && size != kDenseBlock) return damaged("a bfloat frame's block size");
  const ScanKernels kernels = scan_kernels(setup.level);
  ZstdDecoder decoder;
  auto rest = frame.subspan(kHeaderBytes);
  for (std::uint64_t first = 0; first < count; first += size) {
    const std::uint64_t n = std::min(size, count - first);
    BlockHeader header{};
    if (rest.size() < sizeof header) return damaged("a bfloat frame that ends too early");
    std::memcpy(&header, rest.data(), sizeof header);
    rest = rest.subspan(sizeof header);
    const std::size_t bytes = body_size(header, n);
    if (bytes > rest.size()) return damaged("a bfloat frame that ends too early");
    const auto body = rest.first(bytes);
    rest = rest.subspan(bytes);
    if (check_of(header, first / size, body) != header.check) {
      return damaged("the checksum of block " + std::to_string(first / size) +
                     " of a bfloat frame");
    }
    if (!read_body(kernels, n, header, body, place(first, n), decoder)) {
      return damaged("block " + std::to_string(first / size) + " of a bfloat frame");
    }
    done(first, n);
  }
  return rest.empty() ? Status::ok() : damaged("a bfloat frame that goes on after its end");
}

}  // namespace

std::size_t bfloat_bound(const Setup& setup, DType, std::uint64_t count) {
  const std::uint64_t block = block_of(setup);
  return kHeaderBytes + (count + block - 1) / block * sizeof(BlockHeader) + 2 * count;
}

std::size_t bfloat_encode(const Setup& setup, const EncodeRequest& request,
                          std::span<std::byte> out) {
  const std::uint64_t count = request.input.size() / 2;
  const std::uint64_t block = block_of(setup);
  const ScanKernels kernels = scan_kernels(setup.level);
  write_header({kKind, static_cast<std::uint32_t>(block), count}, out);
  BfloatScratch scratch;
  if (setup.options.tier == Tier::kDense) scratch.encoder.emplace(1, Repetitions::kIgnore);
  std::size_t at = kHeaderBytes;
  for (std::uint64_t first = 0; first < count; first += block) {
    const std::uint64_t n = std::min(block, count - first);
    at += write_block(setup, kernels, {first / block, n, request.input.data() + 2 * first}, scratch,
                      out.data() + at);
  }
  return at;
}

Status bfloat_decode(const Setup& setup, std::span<const std::byte> frame, DType,
                     std::span<std::byte> out) {
  return read_blocks(
      setup, frame, out.size() / 2,
      [&](std::uint64_t first, std::uint64_t) { return out.data() + 2 * first; },
      [](std::uint64_t, std::uint64_t) {});
}

Status bfloat_decode_add(const Setup& setup, std::span<const std::byte> frame,
                         std::span<float> sum) {
  std::vector<std::byte> elements(2 * kDenseBlock);
  const Setup halves{CodecId::kBf16, {}, setup.level};
  Status added;
  const Status read = read_blocks(
      setup, frame, sum.size(), [&](std::uint64_t, std::uint64_t) { return elements.data(); },
      [&](std::uint64_t first, std::uint64_t n) {
        added = block_decode_add(halves, std::span(elements).first(2 * n), sum.subspan(first, n));
      });
  return read.is_ok() ? added : read;
}

}  // namespace holdfast::compress
