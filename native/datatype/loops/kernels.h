// The inner loops of packing. They check no sizes, and write no byte that is not named. They are
// compiled once per instruction level; every level writes the same bytes.
//
// A loop packs or unpacks: `from` and `to` are the strided and the packed memory, or the other way
// round.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace holdfast::datatype {

// `rows` rows of `count` blocks.
struct VectorRun {
  const std::byte* from;
  std::byte* to;
  std::uint64_t block;
  std::uint64_t count;
  std::int64_t stride;
  std::uint64_t rows;
  std::int64_t row_stride;
};
using VectorLoop = void (*)(const VectorRun&);

// Blocks of one length at listed places. Offsets that fit are in 32 bits, because reading them is
// half of the work.
struct ListRun {
  const std::byte* from;
  std::byte* to;
  std::uint64_t block;
  std::uint64_t count;
  const std::int32_t* near;
  const std::int64_t* far;
};
using ListLoop = void (*)(const ListRun&);

// Blocks of several lengths; block i is [before[i], before[i + 1]) of the packed form, and
// before[0] lies at the packed address.
struct MixedRun {
  const std::byte* from;
  std::byte* to;
  std::uint64_t count;
  const std::int64_t* offsets;
  const std::uint64_t* before;
};
using MixedLoop = void (*)(const MixedRun&);

// The loops of one direction.
struct PackLoops {
  VectorLoop (*vector)(std::uint64_t block);
  ListLoop (*near_list)(std::uint64_t block);
  ListLoop (*far_list)(std::uint64_t block);
  MixedLoop mixed;
};

struct PackKernels {
  PackLoops pack;
  PackLoops unpack;
};

// Of a level of this processor.
PackKernels pack_kernels(CpuLevel level);

PackKernels pack_kernels_reference();
PackKernels pack_kernels_baseline();
#if defined(__x86_64__)
PackKernels pack_kernels_avx2();
PackKernels pack_kernels_avx512();
#elif defined(__aarch64__)
PackKernels pack_kernels_neon();
#endif

}  // namespace holdfast::datatype
