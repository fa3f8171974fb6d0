// bfloat (bfloat.h) on the device: a warp handles a block of 8192 elements, a lane one element of
// each group. Blocks vary in size, so encoding measures them, adds up where each begins, and
// writes. Decoding first walks from header to header, with one thread, and then reads all blocks at
// once.
#include <bit>

#include "compress/device/bfloat.h"
#include "compress/device/crc.h"
#include "compress/device/values.h"
#include "device/kernel_sets.h"
#include "device/simt.h"

namespace holdfast::compress {
namespace {

using device::kThreads;
using device::kWarp;
using device::Team;
using device::Thread;

inline constexpr std::uint32_t kWarps = kThreads / kWarp;
inline constexpr std::uint32_t kSamples = 128;
inline constexpr std::uint32_t kSampleRun = 16;
inline constexpr std::uint32_t kWindow = 7;
inline constexpr std::uint32_t kCodeBytes = 12;  // per group
inline constexpr std::uint32_t kFrameHeader = 16;
inline constexpr std::uint32_t kBlockHeader = 8;

HOLDFAST_DEVICE std::uint32_t ones_of(std::uint32_t mask) {
#if defined(__CUDACC__)
  return static_cast<std::uint32_t>(__popc(mask));
#else
  return static_cast<std::uint32_t>(std::popcount(mask));
#endif
}

HOLDFAST_DEVICE std::uint32_t element(const std::byte* from, std::uint64_t i) {
  return device::load_element<std::uint16_t>(from + 2 * i);
}
HOLDFAST_DEVICE std::uint32_t exponent_of(std::uint32_t x) { return x >> 7 & 0xffU; }
HOLDFAST_DEVICE std::byte rest_of(std::uint32_t x) {
  return static_cast<std::byte>((x & 0x7fU) | (x >> 8 & 0x80U));
}

HOLDFAST_DEVICE std::uint64_t blocks_of(std::uint64_t count) {
  return (count + kBfloatBlock - 1) / kBfloatBlock;
}
HOLDFAST_DEVICE std::uint32_t elements_of(std::uint64_t count, std::uint64_t block) {
  const std::uint64_t left = count - block * kBfloatBlock;
  return static_cast<std::uint32_t>(left < kBfloatBlock ? left : kBfloatBlock);
}
HOLDFAST_DEVICE std::uint32_t groups_of(std::uint32_t n) { return (n + kWarp - 1) / kWarp; }

// ---- encoding ----

// One warp's count of each exponent in a sample. A window of bins may reach beyond the last
// exponent.
struct WarpHistogram {
  std::uint8_t seen[kWarp * 9];
};
struct Sampled {
  WarpHistogram of[kWarps];
  std::uint8_t exponent[kWarps][kSamples];
};

// Returns the first of the seven consecutive exponents that cover most of a sample.
HOLDFAST_DEVICE std::uint32_t base_of(const Team& team, const std::byte* in, std::uint32_t n) {
  Sampled& all = team.shared<Sampled>();
  std::uint8_t* const seen = all.of[team.index() / kWarp].seen;
  std::uint8_t* const sample = all.exponent[team.index() / kWarp];
  const std::uint32_t lane = team.lane();
  const std::uint32_t samples = n < kSamples ? n : kSamples;
  std::uint32_t low = 255;
  std::uint32_t high = 0;
  for (std::uint32_t i = lane; i < samples; i += kWarp) {
    const std::uint32_t run = n / (kSamples / kSampleRun);
    const std::uint32_t at = n > kSamples ? i / kSampleRun * run + i % kSampleRun : i;
    const std::uint32_t exponent = exponent_of(element(in, at));
    sample[i] = static_cast<std::uint8_t>(exponent);
    low = exponent < low ? exponent : low;
    high = exponent > high ? exponent : high;
  }
  for (std::uint32_t e = lane; e < sizeof(WarpHistogram); e += kWarp) seen[e] = 0;
  low = team.least(low);
  high = team.greatest(high);
  team.sync_warp();
  // A lane counts the exponents that equal its index modulo 32.
  for (std::uint32_t i = 0; i < samples; ++i) {
    if (sample[i] % kWarp == lane) ++seen[sample[i]];
  }
  team.sync_warp();
  // The base that covers most wins, then the lowest: both are in one number to compare.
  std::uint32_t best = 0;
  for (std::uint32_t first = low + lane; first < 256; first += kWarp) {
    if (first != low && first + kWindow > high + 1) break;
    std::uint32_t covered = 0;
    for (std::uint32_t e = 0; e < kWindow; ++e) covered += seen[first + e];
    const std::uint32_t rank = covered << 8 | (255 - first);
    best = rank > best ? rank : best;
  }
  best = team.greatest(best);
  team.sync_warp();
  return 255 - (best & 0xffU);
}

// Three words of codes, one per bit of a code; bit i of each word belongs to lane i's element.
struct WarpCodes {
  std::uint32_t bit[3];
  HOLDFAST_DEVICE std::uint32_t escapes() const { return bit[0] & bit[1] & bit[2]; }
};

HOLDFAST_DEVICE WarpCodes codes_of(const Team& team, std::uint32_t exponent, std::uint32_t base,
                                   bool there) {
  const std::uint32_t above = exponent - base;
  const std::uint32_t code = !there ? 0 : above < kWindow ? above : kWindow;
  WarpCodes codes;
  HOLDFAST_UNROLL
  for (std::uint32_t j = 0; j < 3; ++j) codes.bit[j] = team.ballot((code >> j & 1U) != 0);
  return codes;
}

HOLDFAST_DEVICE void measure(const Team& team, const BfloatEncode& a) {
  const std::uint64_t blocks = blocks_of(a.count);
  for (std::uint64_t b = team.warp(); b < blocks; b += team.warps()) {
    const std::byte* const in = a.input + 2 * kBfloatBlock * b;
    const std::uint32_t n = elements_of(a.count, b);
    const std::uint32_t groups = groups_of(n);
    const std::uint32_t base = base_of(team, in, n);
    std::uint32_t escapes = 0;
    std::uint32_t before_last = 0;
    for (std::uint32_t g = 0; g < groups; ++g) {
      const std::uint32_t i = kWarp * g + team.lane();
      const std::uint32_t x = i < n ? element(in, i) : 0;
      before_last = escapes;
      escapes += ones_of(codes_of(team, exponent_of(x), base, i < n).escapes());
    }
    // The block stays raw unless there was room for a whole group of escapes before each group.
    const std::uint32_t codes = kCodeBytes * groups;
    const bool encoded = codes + before_last + kWarp <= n;
    if (team.lane() != 0) continue;
    a.plans[b] =
        encoded ? BfloatPlan{0, n + codes + escapes, kBfloatCoded, static_cast<std::uint8_t>(base),
                             static_cast<std::uint16_t>(escapes)}
                : BfloatPlan{0, 2 * n, kBfloatRaw, 0, 0};
  }
}

struct Shares {
  std::uint64_t bytes[kThreads];
};

// Computes where each block begins, with one block of threads: each thread adds up the sizes of an
// equal share of blocks, then starts after the shares of the threads before it.
HOLDFAST_DEVICE void place(const Team& team, const BfloatEncode& a) {
  if (team.block() != 0) return;
  Shares& shares = team.shared<Shares>();
  const std::uint64_t blocks = blocks_of(a.count);
  const std::uint64_t each = (blocks + kThreads - 1) / kThreads;
  const std::uint64_t first = each * team.index() < blocks ? each * team.index() : blocks;
  const std::uint64_t end = first + each < blocks ? first + each : blocks;
  std::uint64_t sum = 0;
  for (std::uint64_t b = first; b < end; ++b) sum += kBlockHeader + a.plans[b].bytes;
  shares.bytes[team.index()] = sum;
  team.sync();
  std::uint64_t at = kFrameHeader;
  for (std::uint32_t i = 0; i < team.index(); ++i) at += shares.bytes[i];
  for (std::uint64_t b = first; b < end; ++b) {
    a.plans[b].at = at;
    at += kBlockHeader + a.plans[b].bytes;
  }
  if (team.index() + 1 < kThreads) return;
  a.report->frame_bytes = at;
  device::store_loose(a.frame, std::uint32_t{kBfloatKind});
  device::store_loose(a.frame + 4, static_cast<std::uint32_t>(kBfloatBlock));
  device::store_loose(a.frame + 8, a.count);
}

HOLDFAST_DEVICE std::uint32_t seed_of(const BfloatPlan& plan, std::uint64_t block) {
  const std::uint32_t says =
      std::uint32_t{plan.coding} | std::uint32_t{plan.base} << 8 | std::uint32_t{plan.extra} << 16;
  return says ^ (static_cast<std::uint32_t>(block) * 0x9e3779b9U);
}

HOLDFAST_DEVICE void write_encoded(const Team& team, const std::byte* in, std::uint32_t n,
                                   std::uint32_t base, std::byte* body) {
  const std::uint32_t groups = groups_of(n);
  const std::uint32_t lane = team.lane();
  std::byte* escape = body + n + kCodeBytes * groups;
  for (std::uint32_t g = 0; g < groups; ++g) {
    const std::uint32_t i = kWarp * g + lane;
    const std::uint32_t x = i < n ? element(in, i) : 0;
    const WarpCodes codes = codes_of(team, exponent_of(x), base, i < n);
    if (i < n) body[i] = rest_of(x);
    if (lane < 3) device::store_loose(body + n + kCodeBytes * g + 4 * lane, codes.bit[lane]);
    const std::uint32_t escapes = codes.escapes();
    if ((escapes >> lane & 1U) != 0) {
      escape[ones_of(escapes & ((1U << lane) - 1))] = static_cast<std::byte>(exponent_of(x));
    }
    escape += ones_of(escapes);
  }
}

HOLDFAST_DEVICE void write(const Team& team, const BfloatEncode& a) {
  const std::uint64_t blocks = blocks_of(a.count);
  for (std::uint64_t b = team.warp(); b < blocks; b += team.warps()) {
    const std::byte* const in = a.input + 2 * kBfloatBlock * b;
    const std::uint32_t n = elements_of(a.count, b);
    const BfloatPlan plan = a.plans[b];
    std::byte* const header = a.frame + plan.at;
    std::byte* const body = header + kBlockHeader;
    if (plan.coding == kBfloatCoded) {
      write_encoded(team, in, n, plan.base, body);
    } else {
      for (std::uint32_t i = team.lane(); i < n; i += kWarp) {
        device::store_loose(body + 2 * i, static_cast<std::uint16_t>(element(in, i)));
      }
    }
    team.sync_warp();  // the checksum reads what all lanes wrote
    const std::uint32_t check = checksum_of(team, body, plan.bytes, seed_of(plan, b));
    if (team.lane() == 0) {
      header[0] = static_cast<std::byte>(plan.coding);
      header[1] = static_cast<std::byte>(plan.base);
      device::store_loose(header + 2, plan.extra);
      device::store_loose(header + 4, check);
    }
  }
}

// ---- decoding ----

// Makes the plan of a block from its header; false when the header is invalid.
HOLDFAST_DEVICE bool read_plan(const BfloatDecode& a, std::uint64_t at, std::uint32_t n,
                               BfloatPlan& plan) {
  if (a.frame_bytes - at < kBlockHeader) return false;
  const std::byte* const header = a.frame + at;
  plan.at = at;
  plan.coding = static_cast<std::uint8_t>(header[0]);
  plan.base = static_cast<std::uint8_t>(header[1]);
  plan.extra = device::load_loose<std::uint16_t>(header + 2);
  if (plan.coding == kBfloatRaw) {
    plan.bytes = 2 * n;
  } else if (plan.coding == kBfloatCoded && plan.extra <= kBfloatBlock) {
    plan.bytes = n + kCodeBytes * groups_of(n) + plan.extra;
  } else {
    return false;
  }
  return plan.bytes <= a.frame_bytes - at - kBlockHeader;
}

// Runs on one thread. A frame whose headers are inconsistent is wrong, and none of its blocks is
// read.
HOLDFAST_DEVICE void walk(const Thread& thread, const BfloatDecode& a) {
  if (thread.global() != 0) return;
  a.report->wrong = 1;
  a.report->torn = 1;
  if (a.frame_bytes < kFrameHeader || device::load_loose<std::uint32_t>(a.frame) != kBfloatKind ||
      device::load_loose<std::uint32_t>(a.frame + 4) != kBfloatBlock ||
      device::load_loose<std::uint64_t>(a.frame + 8) != a.count) {
    return;
  }
  std::uint64_t at = kFrameHeader;
  const std::uint64_t blocks = blocks_of(a.count);
  for (std::uint64_t b = 0; b < blocks; ++b) {
    BfloatPlan plan{};
    if (!read_plan(a, at, elements_of(a.count, b), plan)) return;
    a.plans[b] = plan;
    at += kBlockHeader + plan.bytes;
  }
  if (at != a.frame_bytes) return;
  a.report->wrong = 0;
  a.report->torn = 0;
}

HOLDFAST_DEVICE void put(const BfloatDecode& a, std::uint64_t i, std::uint32_t x) {
  if (a.add != 0) {
    float* const sum = static_cast<float*>(a.out) + i;
    *sum = *sum + Bf16::widen(static_cast<std::uint16_t>(x));
  } else {
    device::store_element(bytes_at(a.out, 2 * i), static_cast<std::uint16_t>(x));
  }
}

// Returns whether the block has as many escapes as its header says.
HOLDFAST_DEVICE bool read_encoded(const Team& team, const BfloatDecode& a, const BfloatPlan& plan,
                                  std::uint64_t first, std::uint32_t n) {
  const std::byte* const body = a.frame + plan.at + kBlockHeader;
  const std::uint32_t groups = groups_of(n);
  const std::byte* const escapes = body + n + kCodeBytes * groups;
  const std::uint32_t lane = team.lane();
  std::uint32_t used = 0;
  for (std::uint32_t g = 0; g < groups; ++g) {
    WarpCodes codes;
    HOLDFAST_UNROLL
    for (std::uint32_t j = 0; j < 3; ++j) {
      codes.bit[j] = device::load_loose<std::uint32_t>(body + n + kCodeBytes * g + 4 * j);
    }
    const std::uint32_t mask = codes.escapes();
    const std::uint32_t turn = used + ones_of(mask & ((1U << lane) - 1));
    std::uint32_t exponent = plan.base;
    for (std::uint32_t j = 0; j < 3; ++j) exponent += (codes.bit[j] >> lane & 1U) << j;
    if ((mask >> lane & 1U) != 0) {
      exponent = turn < plan.extra ? static_cast<std::uint32_t>(escapes[turn]) : 0;
    }
    used += ones_of(mask);
    const std::uint32_t i = kWarp * g + lane;
    if (i >= n) continue;
    const auto rest = static_cast<std::uint32_t>(body[i]);
    put(a, first + i, (rest & 0x7fU) | (rest & 0x80U) << 8 | (exponent & 0xffU) << 7);
  }
  return used == plan.extra;
}

HOLDFAST_DEVICE void read(const Team& team, const BfloatDecode& a) {
  // Checks `torn`, not `wrong`, which changes while blocks are read.
  if (a.report->torn != 0) return;
  const std::uint64_t blocks = blocks_of(a.count);
  for (std::uint64_t b = team.warp(); b < blocks; b += team.warps()) {
    const BfloatPlan plan = a.plans[b];
    const std::byte* const header = a.frame + plan.at;
    const std::byte* const body = header + kBlockHeader;
    const std::uint32_t n = elements_of(a.count, b);
    bool right = checksum_of(team, body, plan.bytes, seed_of(plan, b)) ==
                 device::load_loose<std::uint32_t>(header + 4);
    if (right && plan.coding == kBfloatCoded) {
      right = read_encoded(team, a, plan, b * kBfloatBlock, n);
    } else if (right) {
      for (std::uint32_t i = team.lane(); i < n; i += kWarp) {
        put(a, b * kBfloatBlock + i, device::load_loose<std::uint16_t>(body + 2 * i));
      }
    }
    if (!right && team.lane() == 0) a.report->wrong = 1;  // all writers write 1
  }
}

}  // namespace
}  // namespace holdfast::compress

namespace holdfast {

#define BFLOAT_KERNELS(KERNEL)                       \
  KERNEL(holdfast_bfloat_measure, compress::measure) \
  KERNEL(holdfast_bfloat_place, compress::place)     \
  KERNEL(holdfast_bfloat_write, compress::write)     \
  KERNEL(holdfast_bfloat_walk, compress::walk)       \
  KERNEL(holdfast_bfloat_read, compress::read)

HOLDFAST_KERNELS(bfloat, BFLOAT_KERNELS)

}  // namespace holdfast
