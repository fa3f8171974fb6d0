#include "datatype/rows.h"

#include <bit>
#include <cstring>
#include <string>

#include "base/check.h"

namespace holdfast::datatype {

const device::KernelRow& rows_kernel() {
  const device::KernelRow* found = device::find_kernel("holdfast_gather_rows");
  CHECK(found != nullptr);
  return *found;
}

RowsArgument rows_argument(const std::byte* table, std::uint64_t rows, std::uint64_t row_bytes,
                           std::uint64_t stride, std::span<const std::int64_t> index,
                           std::byte* out, std::uint64_t* wrong) {
  // On both sides, rows begin and end at multiples of the largest power of two that divides `all`.
  const std::uint64_t all = 16 | row_bytes | stride | reinterpret_cast<std::uintptr_t>(table) |
                            reinterpret_cast<std::uintptr_t>(out);
  return {.table = table,
          .index = index.data(),
          .out = out,
          .rows = rows,
          .count = index.size(),
          .row_bytes = row_bytes,
          .stride = stride,
          .unit_bytes = std::uint32_t{1} << std::countr_zero(all),
          .wrong = wrong};
}

std::uint64_t rows_threads(const RowsArgument& argument) { return argument.count * 32; }

Status gather_rows(const RowsArgument& a) {
  const auto rows = static_cast<std::int64_t>(a.rows);
  for (std::uint64_t i = 0; i < a.count; ++i) {
    if (a.index[i] >= -rows && a.index[i] < rows) continue;
    return {Code::kConfigError, "gather_rows: index[" + std::to_string(i) + "] is " +
                                    std::to_string(a.index[i]) + ", the table has " +
                                    std::to_string(a.rows) + " rows"};
  }
  if (a.row_bytes == 0) return Status::ok();
  for (std::uint64_t i = 0; i < a.count; ++i) {
    const std::int64_t row = a.index[i] < 0 ? a.index[i] + rows : a.index[i];
    std::memcpy(a.out + i * a.row_bytes, a.table + static_cast<std::uint64_t>(row) * a.stride,
                a.row_bytes);
  }
  return Status::ok();
}

}  // namespace holdfast::datatype
