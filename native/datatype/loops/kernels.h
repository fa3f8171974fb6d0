// The inner loops of packing. They check no sizes, and write no byte that is not named. Shuffles
// and gathers are compiled once per instruction level; loops over blocks are the same at all
// levels, because moves of 16 bytes do as well as longer ones, which cross cache lines wherever
// arrays begin where malloc puts them. Every level writes the same bytes.
//
// A loop packs or unpacks: `from` and `to` are the strided and the packed memory, or the other way
// round.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace holdfast::datatype {

// `rows` rows of `count` blocks, which are `stride` apart, and `pitch` in packed memory, where all
// rows are one behind the other.
struct VectorRun {
  const std::byte* from;
  std::byte* to;
  std::uint64_t block;
  std::uint64_t count;
  std::int64_t stride;
  std::uint64_t pitch;
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

// Groups of records by shuffles: each chunk of a group is one vector, put together from `terms`
// loads, whose bytes a permutation puts into their lanes (pack/shuffle.h makes them). Packing
// stores whole vectors, so that a chunk may write what the next one overwrites; unpacking stores
// the lanes of `keep`.
struct ShuffleRun {
  const std::byte* from;
  std::byte* to;
  std::uint64_t groups;
  std::int64_t from_step;
  std::int64_t to_step;
  std::uint64_t chunks;
  std::uint64_t terms;
  const std::int64_t* targets;  // by chunk
  const std::uint64_t* keep;
  const std::int64_t* sources;   // by chunk and term
  const std::uint64_t* lanes;    // that a term fills
  const unsigned char* indices;  // as many bytes as a vector has
};
using ShuffleLoop = void (*)(const ShuffleRun&);

// A width of vectors, and the bytes that a permutation moves as one. Loops are nullptr where a
// level has none: no vectors, or no stores of chosen bytes.
struct ShuffleForm {
  std::uint64_t vector = 0;
  std::uint64_t unit = 0;
  ShuffleLoop (*pack)(std::uint64_t chunks, std::uint64_t terms) = nullptr;
  ShuffleLoop (*unpack)(std::uint64_t chunks, std::uint64_t terms) = nullptr;
};

// The loops of one direction.
struct PackLoops {
  VectorLoop (*vector)(std::uint64_t block);
  VectorLoop (*rows)(std::uint64_t block, std::uint64_t count);
  ListLoop (*near_list)(std::uint64_t block);
  ListLoop (*far_list)(std::uint64_t block);
  MixedLoop mixed;
};

struct PackKernels {
  PackLoops pack;
  PackLoops unpack;
  // Gathers of a level's own for these lengths, or nullptr.
  ListLoop gather4 = nullptr;
  ListLoop gather8 = nullptr;
  ShuffleForm narrow{};
  ShuffleForm wide{};
};

// Of a level of this processor, with the permutations of bytes that it may have beside it.
PackKernels pack_kernels(CpuLevel level, bool byte_permutes = has_byte_permutes());

PackKernels pack_kernels_reference();
PackKernels pack_kernels_baseline();
#if defined(__x86_64__)
PackKernels pack_kernels_avx2();
PackKernels pack_kernels_avx512();
ShuffleForm byte_shuffles();  // of AVX-512 VBMI
#elif defined(__aarch64__)
PackKernels pack_kernels_neon();
#endif

}  // namespace holdfast::datatype
