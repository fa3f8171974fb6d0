// The loops over blocks, in both directions, as the reference and the baseline compile them.
#pragma once

#include "datatype/loops/block_copy.h"
#include "datatype/loops/kernels.h"

namespace holdfast::datatype {
namespace {

// The address of an offset.
template <bool kPack>
struct Sides {
  template <class Run>
  static const std::byte* from(const Run& run, std::int64_t strided, std::uint64_t packed) {
    return kPack ? run.from + strided : run.from + packed;
  }
  template <class Run>
  static std::byte* to(const Run& run, std::int64_t strided, std::uint64_t packed) {
    return kPack ? run.to + packed : run.to + strided;
  }
};

template <bool kPack, class Copy>
void vector_loop(const VectorRun& given) {
  // A copy, because every byte written may otherwise change it.
  const VectorRun run = given;
  const auto pitch = static_cast<std::int64_t>(run.pitch);
  const std::int64_t from_step = kPack ? run.stride : pitch;
  const std::int64_t to_step = kPack ? pitch : run.stride;
  const std::int64_t packed_row = static_cast<std::int64_t>(run.count) * pitch;
  for (std::uint64_t r = 0; r < run.rows; ++r) {
    const auto row = static_cast<std::int64_t>(r);
    const std::byte* from = run.from + row * (kPack ? run.row_stride : packed_row);
    std::byte* to = run.to + row * (kPack ? packed_row : run.row_stride);
    std::uint64_t left = run.count;
    for (; left >= 4; left -= 4) {
      Copy::copy(to, from, run.block);
      Copy::copy(to + to_step, from + from_step, run.block);
      Copy::copy(to + 2 * to_step, from + 2 * from_step, run.block);
      Copy::copy(to + 3 * to_step, from + 3 * from_step, run.block);
      to += 4 * to_step;
      from += 4 * from_step;
    }
    for (; left > 0; --left) {
      Copy::copy(to, from, run.block);
      to += to_step;
      from += from_step;
    }
  }
}

// Rows so short that their loops would cost as much as their blocks.
template <bool kPack, class Copy, std::uint64_t kCount>
void short_rows_loop(const VectorRun& given) {
  const VectorRun run = given;
  const auto pitch = static_cast<std::int64_t>(run.pitch);
  const std::int64_t from_step = kPack ? run.stride : pitch;
  const std::int64_t to_step = kPack ? pitch : run.stride;
  const std::int64_t packed_row = static_cast<std::int64_t>(kCount) * pitch;
  const std::byte* from = run.from;
  std::byte* to = run.to;
  for (std::uint64_t r = 0; r < run.rows; ++r) {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const auto block = static_cast<std::int64_t>(i);
      Copy::copy(to + block * to_step, from + block * from_step, run.block);
    }
    from += kPack ? run.row_stride : packed_row;
    to += kPack ? packed_row : run.row_stride;
  }
}

template <bool kPack, class Copy>
VectorLoop short_rows(std::uint64_t count) {
  switch (count) {
    case 2: return short_rows_loop<kPack, Copy, 2>;
    case 3: return short_rows_loop<kPack, Copy, 3>;
    case 4: return short_rows_loop<kPack, Copy, 4>;
    case 5: return short_rows_loop<kPack, Copy, 5>;
    case 6: return short_rows_loop<kPack, Copy, 6>;
    case 7: return short_rows_loop<kPack, Copy, 7>;
    case 8: return short_rows_loop<kPack, Copy, 8>;
    default: return vector_loop<kPack, Copy>;
  }
}

// Of elements as they are usual; others are vectors.
template <bool kPack>
VectorLoop rows_of(std::uint64_t block, std::uint64_t count) {
  switch (block) {
    case 4: return short_rows<kPack, CopyExact<4>>(count);
    case 8: return short_rows<kPack, CopyExact<8>>(count);
    case 16: return short_rows<kPack, CopyExact<16>>(count);
    default: return nullptr;
  }
}

template <bool kPack, class Copy>
void near_loop(const ListRun& given) {
  const ListRun run = given;
  for (std::uint64_t i = 0; i < run.count; ++i) {
    const std::int64_t at = run.near[i];
    Copy::copy(Sides<kPack>::to(run, at, i * run.block), Sides<kPack>::from(run, at, i * run.block),
               run.block);
  }
}

template <bool kPack, class Copy>
void far_loop(const ListRun& given) {
  const ListRun run = given;
  for (std::uint64_t i = 0; i < run.count; ++i) {
    const std::int64_t at = run.far[i];
    Copy::copy(Sides<kPack>::to(run, at, i * run.block), Sides<kPack>::from(run, at, i * run.block),
               run.block);
  }
}

template <bool kPack>
void mixed_loop(const MixedRun& given) {
  const MixedRun run = given;
  const std::uint64_t first = run.before[0];
  for (std::uint64_t i = 0; i < run.count; ++i) {
    const std::uint64_t packed = run.before[i] - first;
    CopyAny::copy(Sides<kPack>::to(run, run.offsets[i], packed),
                  Sides<kPack>::from(run, run.offsets[i], packed),
                  run.before[i + 1] - run.before[i]);
  }
}

template <bool kPack>
struct Loops {
  template <class Copy>
  struct Vector {
    static constexpr VectorLoop loop = vector_loop<kPack, Copy>;
  };
  template <class Copy>
  struct Near {
    static constexpr ListLoop loop = near_loop<kPack, Copy>;
  };
  template <class Copy>
  struct Far {
    static constexpr ListLoop loop = far_loop<kPack, Copy>;
  };

  static VectorLoop vector(std::uint64_t block) { return loop_for<Vector>(block); }
  static VectorLoop rows(std::uint64_t block, std::uint64_t count) {
    const VectorLoop loop = rows_of<kPack>(block, count);
    return loop != nullptr ? loop : vector(block);
  }
  static ListLoop near_list(std::uint64_t block) { return loop_for<Near>(block); }
  static ListLoop far_list(std::uint64_t block) { return loop_for<Far>(block); }
  static PackLoops all() { return {vector, rows, near_list, far_list, mixed_loop<kPack>}; }
};

[[maybe_unused]] PackKernels select_pack_kernels() {
  return {.pack = Loops<true>::all(), .unpack = Loops<false>::all()};
}

}  // namespace
}  // namespace holdfast::datatype
