// ShufflePlan: how a record that is repeated at one stride (a few blocks, or one) is packed or
// unpacked by shuffles: several records are a group, whose bytes on the side that is written are
// cut into vectors, and each vector is put together from a few loads.
//
// Loads may reach beyond what the typemap names, into gaps, but never beyond the lowest and the
// highest byte of the whole run; strides are so short that no page lies between. Nothing but named
// bytes is written, since in MPI gaps are the program's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "datatype/loops/kernels.h"
#include "datatype/typemap/block_cursor.h"

namespace holdfast::datatype {

// A record's blocks, from its own zero; its reach is [low, high).
struct PackRecord {
  std::vector<ByteBlock> blocks{};
  std::uint64_t size = 0;
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t stride = 0;
};
// Longer ones gain nothing, and pages lie within.
inline constexpr std::uint64_t kMostRecordBlocks = 32;
inline constexpr std::int64_t kMostRecordReach = 512;

struct ShufflePlan {
  std::uint64_t records = 0;  // per group
  std::uint64_t chunks = 0;
  std::uint64_t terms = 0;
  std::int64_t source_high = 0;  // the ends of what a group may touch, from its zero
  std::int64_t target_high = 0;
  ShuffleLoop loop = nullptr;
  std::vector<std::int64_t> targets{};
  std::vector<std::uint64_t> keep{};
  std::vector<std::int64_t> sources{};
  std::vector<std::uint64_t> lanes{};
  std::vector<unsigned char> indices{};
};

// The better plan of the level's two forms; nullptr where blocks one by one are as good.
std::shared_ptr<const ShufflePlan> shuffle_plan(const PackRecord& record,
                                                const PackKernels& kernels, bool packs);

// Moves as many of `count` records as whole groups reach, from number `first` on, which both are
// told by the result.
struct ShuffledRecords {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
ShuffledRecords shuffle_records(const ShufflePlan& plan, const PackRecord& record, bool packs,
                                std::uint64_t count, const std::byte* from, std::byte* to);

}  // namespace holdfast::datatype
