// Rows: gathers rows of a table by number: out[i, :] = table[index[i], :]. The table may be pinned
// host memory, which the device then reads line by line over the bus: the kernel asks for aligned
// lines only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "device/kernel.h"

namespace holdfast::datatype {

struct RowsArgument {
  const std::byte* table;
  const std::int64_t* index;  // -rows <= index < rows; negative ones count from the end
  std::byte* out;             // `count` rows without gaps
  std::uint64_t rows;         // of the table
  std::uint64_t count;
  std::uint64_t row_bytes;
  std::uint64_t stride;      // bytes from row to row of the table
  std::uint32_t unit_bytes;  // row_unit()
  // Set to i + 1 for some index[i] that is out of range; otherwise left as it is. Rows of such
  // indices are zeroed.
  std::uint64_t* wrong;
};

const device::KernelRow& rows_kernel();
// Makes a complete argument; `*wrong` must be zero before the launch.
RowsArgument rows_argument(const std::byte* table, std::uint64_t rows, std::uint64_t row_bytes,
                           std::uint64_t stride, std::span<const std::int64_t> index,
                           std::byte* out, std::uint64_t* wrong);
// How many threads the rows keep busy.
std::uint64_t rows_threads(const RowsArgument& argument);

// Gathers on the CPU. Returns kConfigError for an index out of range, before anything is written.
Status gather_rows(const RowsArgument& argument);

}  // namespace holdfast::datatype
