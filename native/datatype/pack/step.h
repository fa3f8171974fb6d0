// PackStep: what packing does with a node of a layout, chosen once: which kernel moves a node's
// blocks, or how its parts are walked. PackPlan: the steps of one element of a layout, and of
// several, which are one more loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "datatype/layout.h"
#include "datatype/loops/kernels.h"
#include "datatype/pack/shuffle.h"

namespace holdfast::datatype {

struct PackStep;
// Its owners are the plan and the steps above it.
using StepRef = std::shared_ptr<const PackStep>;

enum class PackKind : std::uint8_t {
  kCopy,     // one block
  kRecords,  // a loop over a few blocks
  kRows,     // a loop over a loop over a block
  kLoop,     // any other loop
  kList,     // blocks of one length
  kMixed,    // blocks of several lengths
  kParts,    // any other list
};

// Of kRecords and kRows, in one direction: the loop of each of the record's blocks, and the
// shuffles, where they are faster.
struct RecordLoops {
  std::vector<VectorLoop> blocks{};
  std::shared_ptr<const ShufflePlan> shuffles{};
};

struct PackStep {
  PackKind kind = PackKind::kCopy;
  NodeRef node{};
  std::uint64_t item = 0;           // packed bytes of a loop's turn
  std::vector<StepRef> children{};  // a loop's body, or the parts of a list
  PackRecord record{};
  RecordLoops pack_record{};
  RecordLoops unpack_record{};
  // Of kList, and of kMixed where its blocks are short runs of equal elements, which are listed one
  // by one: lengths that nobody can predict cost more than elements. `near` holds the offsets where
  // they fit.
  std::uint64_t element = 0;
  std::vector<std::int32_t> near{};
  ListLoop pack_list = nullptr;
  ListLoop unpack_list = nullptr;
  MixedLoop pack_mixed = nullptr;
  MixedLoop unpack_mixed = nullptr;
};

struct PackPlan {
  TypeLayout layout;
  StepRef one;   // nullptr where there are no bytes
  StepRef many;  // goes on for any count: a step's length is not looked at, but for lists
};

PackPlan pack_plan(const TypeLayout& layout, const PackKernels& kernels);

// Packs or unpacks bytes [begin, end) of a step, whose first byte is at `strided`.
void pack_range(const PackStep& step, const std::byte* strided, std::uint64_t begin,
                std::uint64_t end, std::byte* packed);
void unpack_range(const PackStep& step, std::byte* strided, std::uint64_t begin, std::uint64_t end,
                  const std::byte* packed);

}  // namespace holdfast::datatype
