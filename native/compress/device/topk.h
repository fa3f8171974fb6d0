// Arguments of topk's kernels (topk.cu): one struct for all that encode, one for all that decode.
#pragma once

#include <cstdint>

#include "compress/device/codec.h"

namespace holdfast::compress {

// The threshold is found digit by digit, the highest bits of magnitudes first.
inline constexpr std::uint32_t kTopkDigits = 4;
inline constexpr std::uint32_t kTopkBins = 256;
// Limit of sections. A section is a run of elements with one block of threads, so that counts do
// not depend on the grid.
inline constexpr std::uint64_t kMostSections = 512;

struct TopkState {
  std::uint32_t prefix;     // the threshold's known digits, the rest zeros
  std::uint64_t remaining;  // elements with this prefix to send, lowest numbers first
};
struct TopkTally {
  std::uint64_t above;  // elements above the threshold; later the entries before the section
  std::uint64_t equal;  // elements at the threshold; later those before the section
};

struct TopkEncode {
  DeviceEncode codec;
  std::uint64_t k;
  std::uint64_t sections;
  std::uint64_t section;  // its elements; a multiple of a block's threads
  std::uint32_t digit;    // for holdfast_topk_count and _choose
  std::uint32_t* counts;  // kTopkBins per section
  TopkTally* tallies;     // one per section
  TopkState* state;
};

struct TopkDecode {
  DeviceDecode codec;
  std::uint64_t k;
  std::uint32_t* wrong;  // set to 1 for an impossible frame, else 0
};

}  // namespace holdfast::compress
