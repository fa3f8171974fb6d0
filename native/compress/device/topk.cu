// topk on the device. Encoding is a radix selection without atomic operations: sections of the
// input count one digit of their magnitudes, by warp ballots; one block of threads adds the counts
// and chooses the digit; this repeats until the k-th magnitude is known. Then sections count their
// elements above and at this magnitude, one block computes where each section begins in the frame,
// and the sections write. Ties go to the lowest numbers, as the sections are in order.
// Source of the selection: Alabi et al., "Fast k-selection algorithms for graphics processing
// units", 2012 (radix select); their version counts by atomic operations.
#include <bit>

#include "compress/device/topk.h"
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
inline constexpr std::uint32_t kBinsOfLane = kTopkBins / kWarp;

HOLDFAST_DEVICE std::uint32_t count_of(std::uint32_t mask) {
#if defined(__CUDACC__)
  return static_cast<std::uint32_t>(__popc(mask));
#else
  return static_cast<std::uint32_t>(std::popcount(mask));
#endif
}

// Magnitudes have 31 bits: three digits of eight, and one of seven.
HOLDFAST_DEVICE std::uint32_t shift_of(std::uint32_t digit) {
  return digit == 3 ? 0 : 23 - 8 * digit;
}
HOLDFAST_DEVICE std::uint32_t digit_of(std::uint32_t size, std::uint32_t digit) {
  return size >> shift_of(digit) & (digit == 3 ? 0x7fU : 0xffU);
}

struct Section {
  std::uint64_t first;
  std::uint64_t end;
};
HOLDFAST_DEVICE Section section_of(const TopkEncode& a, std::uint64_t s) {
  const std::uint64_t first = s * a.section;
  const std::uint64_t end = first + a.section;
  return {first, end < a.codec.count ? end : a.codec.count};
}

// Adds a row to a lane's bins: a lane counts the digits whose lower five bits are its index.
HOLDFAST_DEVICE void count_row(const Team& team, std::uint32_t live, std::uint32_t digit,
                               std::uint32_t* bins) {
  std::uint32_t mine = live;
  HOLDFAST_UNROLL
  for (std::uint32_t bit = 0; bit < 5; ++bit) {
    const std::uint32_t ones = team.ballot((digit >> bit & 1U) != 0);
    mine &= (team.lane() >> bit & 1U) != 0 ? ones : ~ones;
  }
  const std::uint32_t five = team.ballot((digit & 32U) != 0);
  const std::uint32_t six = team.ballot((digit & 64U) != 0);
  const std::uint32_t seven = team.ballot((digit & 128U) != 0);
  HOLDFAST_UNROLL
  for (std::uint32_t top = 0; top < kBinsOfLane; ++top) {
    const std::uint32_t at = ((top & 1U) != 0 ? five : ~five) & ((top & 2U) != 0 ? six : ~six) &
                             ((top & 4U) != 0 ? seven : ~seven);
    bins[top] += count_of(mine & at);
  }
}

struct Bins {
  std::uint32_t of[kWarps][kTopkBins];
};

HOLDFAST_DEVICE void count_digits(const Team& team, const TopkEncode& a) {
  Bins& all = team.shared<Bins>();
  const std::uint32_t known = a.digit == 0 ? 0 : a.state->prefix;
  const std::uint32_t warp = team.index() / kWarp;
  for (std::uint64_t s = team.block(); s < a.sections; s += team.blocks()) {
    const Section section = section_of(a, s);
    std::uint32_t bins[kBinsOfLane] = {};
    for (std::uint64_t at = section.first; at < section.end; at += kThreads) {
      const std::uint64_t i = at + team.index();
      const bool there = i < section.end;
      const std::uint32_t size = there ? magnitude(encoded_value(a.codec, i)) : 0;
      const bool fits = a.digit == 0 || (size ^ known) >> shift_of(a.digit - 1) == 0;
      const std::uint32_t live = team.ballot(there && fits);
      if (live != 0) count_row(team, live, digit_of(size, a.digit), bins);
    }
    for (std::uint32_t top = 0; top < kBinsOfLane; ++top) {
      all.of[warp][kWarp * top + team.lane()] = bins[top];
    }
    team.sync();
    std::uint32_t sum = 0;
    for (std::uint32_t w = 0; w < kWarps; ++w) sum += all.of[w][team.index()];
    a.counts[s * kTopkBins + team.index()] = sum;
    team.sync();
  }
}

struct Totals {
  std::uint64_t of[kTopkBins];
};

// Runs on one block of threads, one thread per digit.
HOLDFAST_DEVICE void choose_digit(const Team& team, const TopkEncode& a) {
  if (team.block() != 0) return;
  Totals& totals = team.shared<Totals>();
  std::uint64_t total = 0;
  for (std::uint64_t s = 0; s < a.sections; ++s) total += a.counts[s * kTopkBins + team.index()];
  totals.of[team.index()] = total;
  team.sync();
  if (team.index() != 0) return;
  const TopkState before = a.digit == 0 ? TopkState{0, a.k} : *a.state;
  std::uint64_t above = 0;
  std::uint32_t digit = kTopkBins - 1;
  while (digit > 0 && above + totals.of[digit] < before.remaining) above += totals.of[digit--];
  *a.state = {before.prefix | digit << shift_of(a.digit), before.remaining - above};
}

struct Sums {
  std::uint32_t above[kWarps];
  std::uint32_t equal[kWarps];
};

HOLDFAST_DEVICE void tally_sections(const Team& team, const TopkEncode& a) {
  Sums& sums = team.shared<Sums>();
  const std::uint32_t threshold = a.state->prefix;
  for (std::uint64_t s = team.block(); s < a.sections; s += team.blocks()) {
    const Section section = section_of(a, s);
    std::uint32_t above = 0;
    std::uint32_t equal = 0;
    for (std::uint64_t at = section.first; at < section.end; at += kThreads) {
      const std::uint64_t i = at + team.index();
      const bool there = i < section.end;
      const std::uint32_t size = there ? magnitude(encoded_value(a.codec, i)) : 0;
      above += count_of(team.ballot(there && size > threshold));
      equal += count_of(team.ballot(there && size == threshold));
    }
    if (team.lane() == 0) {
      sums.above[team.index() / kWarp] = above;
      sums.equal[team.index() / kWarp] = equal;
    }
    team.sync();
    if (team.index() == 0) {
      TopkTally all{0, 0};
      for (std::uint32_t w = 0; w < kWarps; ++w) {
        all.above += sums.above[w];
        all.equal += sums.equal[w];
      }
      a.tallies[s] = all;
    }
    team.sync();
  }
}

HOLDFAST_DEVICE std::uint64_t least_of(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

struct Tallies {
  TopkTally of[kMostSections];
};

// Runs on one block of threads: sums the entries before each section.
HOLDFAST_DEVICE void place_sections(const Team& team, const TopkEncode& a) {
  if (team.block() != 0) return;
  Tallies& tallies = team.shared<Tallies>();
  for (std::uint64_t s = team.index(); s < a.sections; s += kThreads) {
    tallies.of[s] = a.tallies[s];
  }
  team.sync();
  if (team.index() != 0) return;
  const std::uint64_t taken = a.state->remaining;
  std::uint64_t above = 0;
  std::uint64_t equal = 0;
  for (std::uint64_t s = 0; s < a.sections; ++s) {
    a.tallies[s] = {above + least_of(equal, taken), equal};
    above += tallies.of[s].above;
    equal += tallies.of[s].equal;
  }
}

// Sums over the warps before this one, and over all warps.
struct Before {
  std::uint32_t mine;
  std::uint32_t all;
};
HOLDFAST_DEVICE Before sum_before(const std::uint32_t* of_warp, std::uint32_t warp) {
  Before sum{0, 0};
  for (std::uint32_t w = 0; w < kWarps; ++w) {
    if (w < warp) sum.mine += of_warp[w];
    sum.all += of_warp[w];
  }
  return sum;
}

HOLDFAST_DEVICE void write_entry(const TopkEncode& a, std::uint64_t entry, std::uint64_t i,
                                 float value) {
  std::byte* const numbers = a.codec.frame;
  device::store_element(numbers + 4 * entry, static_cast<std::uint32_t>(i));
  device::store_element(numbers + 4 * (a.k + entry), as_bits(value));
}

HOLDFAST_DEVICE void write_section(const Team& team, const TopkEncode& a, const Section& section,
                                   TopkTally before) {
  Sums& sums = team.shared<Sums>();
  const TopkState state = *a.state;
  const bool forgets = state.prefix >= kInfinityBits;  // more non-finite values than were sent
  const std::uint32_t warp = team.index() / kWarp;
  const std::uint32_t below = (1U << team.lane()) - 1;
  for (std::uint64_t at = section.first; at < section.end; at += kThreads) {
    const std::uint64_t i = at + team.index();
    const bool there = i < section.end;
    const float value = there ? encoded_value(a.codec, i) : 0.0F;
    const std::uint32_t size = magnitude(value);
    const bool equal = there && size == state.prefix;
    const std::uint32_t equals = team.ballot(equal);
    if (team.lane() == 0) sums.equal[warp] = count_of(equals);
    team.sync();
    const Before same = sum_before(sums.equal, warp);
    const std::uint64_t turn = before.equal + same.mine + count_of(equals & below);
    const bool chosen = there && (size > state.prefix || (equal && turn < state.remaining));
    const std::uint32_t all_chosen = team.ballot(chosen);
    if (team.lane() == 0) sums.above[warp] = count_of(all_chosen);
    team.sync();
    const Before sent = sum_before(sums.above, warp);
    if (chosen) {
      write_entry(a, before.above + sent.mine + count_of(all_chosen & below), i, value);
    }
    if (there && a.codec.residual != nullptr) {
      const bool heals = forgets && size >= kInfinityBits;
      a.codec.residual[i] = chosen || heals ? 0.0F : value;
    }
    before.above += sent.all;
    before.equal += same.all;
  }
  team.sync();
}

HOLDFAST_DEVICE void write_sections(const Team& team, const TopkEncode& a) {
  for (std::uint64_t s = team.block(); s < a.sections; s += team.blocks()) {
    write_section(team, a, section_of(a, s), a.tallies[s]);
  }
}

HOLDFAST_DEVICE void clear(const Thread& thread, const TopkDecode& a) {
  if (thread.global() == 0) *a.wrong = 0;
  if (a.codec.add != 0) return;
  for (std::uint64_t i = thread.global(); i < a.codec.count; i += thread.stride()) {
    store_value(a.codec.out, a.codec.elements, i, 0.0F);
  }
}

// Narrows like the CPU's scalar code, whose NaN in bf16 differs from that of the other codecs'
// loops.
HOLDFAST_DEVICE void place_value(const DeviceDecode& a, std::uint64_t i, float value) {
  if (a.elements == DeviceElements::kBF16) {
    device::store_element(bytes_at(a.out, 2 * i), Bfloat::narrow(value).bits);
  } else {
    store_value(a.out, a.elements, i, value);
  }
}

HOLDFAST_DEVICE void scatter(const Thread& thread, const TopkDecode& a) {
  const std::byte* const numbers = a.codec.frame;
  for (std::uint64_t j = thread.global(); j < a.k; j += thread.stride()) {
    const auto i = device::load_element<std::uint32_t>(numbers + 4 * j);
    const bool follows = j == 0 || device::load_element<std::uint32_t>(numbers + 4 * (j - 1)) < i;
    if (!follows || i >= a.codec.count) {
      *a.wrong = 1;  // all writers write 1
      continue;
    }
    float value = as_float(device::load_element<std::uint32_t>(numbers + 4 * (a.k + j)));
    if (a.codec.add != 0) {
      value = device::load_element<float>(bytes_at(a.codec.out, 4 * std::uint64_t{i})) + value;
    }
    place_value(a.codec, i, value);
  }
}

}  // namespace
}  // namespace holdfast::compress

namespace holdfast {

#define TOPK_KERNELS(KERNEL)                            \
  KERNEL(holdfast_topk_count, compress::count_digits)   \
  KERNEL(holdfast_topk_choose, compress::choose_digit)  \
  KERNEL(holdfast_topk_tally, compress::tally_sections) \
  KERNEL(holdfast_topk_place, compress::place_sections) \
  KERNEL(holdfast_topk_write, compress::write_sections) \
  KERNEL(holdfast_topk_clear, compress::clear)          \
  KERNEL(holdfast_topk_scatter, compress::scatter)

HOLDFAST_KERNELS(topk, TOPK_KERNELS)

}  // namespace holdfast
