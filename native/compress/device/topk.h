// Arguments of topk's kernels (topk.cu): one for all that encode, one for all that decode.
#pragma once

#include <cstdint>

#include "compress/device/codec.h"

namespace holdfast::compress {

// The threshold is found digit by digit, the highest bits of magnitudes first.
inline constexpr std::uint32_t kTopkDigits = 4;
inline constexpr std::uint32_t kTopkBins = 256;
// Runs of elements, a block of threads to each: what is counted does not depend on the grid.
inline constexpr std::uint64_t kMostSections = 512;

struct TopkState {
  std::uint32_t prefix;     // the threshold's digits as far as they are known, the rest zeros
  std::uint64_t remaining;  // elements with that prefix that are sent: of the final one, the first
};
struct TopkTally {
  std::uint64_t above;  // elements above the threshold; later the frame's entries before a section
  std::uint64_t equal;  // at the threshold; later those before a section
};

struct TopkEncode {
  DeviceEncode codec;
  std::uint64_t k;
  std::uint64_t sections;
  std::uint64_t section;  // elements; a multiple of a block's threads
  std::uint32_t digit;    // holdfast_topk_count, _choose
  std::uint32_t* counts;  // kTopkBins to a section
  TopkTally* tallies;     // one to a section
  TopkState* state;
};

struct TopkDecode {
  DeviceDecode codec;
  std::uint64_t k;
  std::uint32_t* wrong;  // becomes 1 for a frame that cannot be one, else 0
};

}  // namespace holdfast::compress
