// MPI_MAXLOC and MPI_MINLOC on pairs that the core's kernels do not take: packed ones, whose index
// follows the value without padding, and those of two floating-point numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/types/basic_types.h"

namespace holdfast::mpi {

std::uint64_t index_bytes(const PairType& type);

// inout[i] = in[i] op inout[i]. `stride` is from pair to pair, and `index_at` from a value to its
// index. Of equal values the lower index wins, and NaN wins over any number, as in the kernels.
void combine_pairs(const PairType& type, bool greatest, const std::byte* in, std::byte* inout,
                   std::uint64_t count, std::uint64_t stride, std::uint64_t index_at);

}  // namespace holdfast::mpi
