// Each warp copies a row. Its loads begin at a line of 128 bytes, wherever the row begins, so that
// each load is one request to memory, or over the bus to the host's memory (Min et al., 2021,
// measured what misaligned loads cost). Lanes before the row and behind it do nothing.
#include "datatype/rows.h"
#include "device/kernel_sets.h"
#include "device/memory.h"
#include "device/simt.h"

namespace holdfast::datatype {
namespace {

using device::kWarp;
using device::Thread;

inline constexpr std::uint32_t kLineBytes = 128;
// Loads that each lane issues before its first store.
inline constexpr std::uint32_t kAhead = 4;

template <class Unit>
HOLDFAST_DEVICE void copy_row(std::uint32_t lane, const std::byte* from, std::byte* to,
                              std::uint64_t bytes) {
  const auto before = static_cast<std::int64_t>(device::address_of(from) % kLineBytes);
  const auto end = static_cast<std::int64_t>(bytes);
  constexpr auto kUnit = static_cast<std::int64_t>(sizeof(Unit));
  constexpr std::int64_t kStep = kWarp * kUnit;
  for (std::int64_t at = std::int64_t{lane} * kUnit - before; at < end; at += kAhead * kStep) {
    Unit unit[kAhead] = {};
    HOLDFAST_UNROLL
    for (std::uint32_t j = 0; j < kAhead; ++j) {
      const std::int64_t i = at + j * kStep;
      if (i >= 0 && i < end) unit[j] = *reinterpret_cast<const Unit*>(from + i);
    }
    HOLDFAST_UNROLL
    for (std::uint32_t j = 0; j < kAhead; ++j) {
      const std::int64_t i = at + j * kStep;
      if (i >= 0 && i < end) *reinterpret_cast<Unit*>(to + i) = unit[j];
    }
  }
}

template <class Unit>
HOLDFAST_DEVICE void clear_row(std::uint32_t lane, std::byte* to, std::uint64_t bytes) {
  for (std::uint64_t i = lane * sizeof(Unit); i < bytes; i += kWarp * sizeof(Unit)) {
    *reinterpret_cast<Unit*>(to + i) = Unit{};
  }
}

template <class Unit>
HOLDFAST_DEVICE void gather(const Thread& thread, const RowsArgument& a) {
  const auto rows = static_cast<std::int64_t>(a.rows);
  for (std::uint64_t i = thread.warp(); i < a.count; i += thread.warps()) {
    const std::int64_t index = a.index[i];
    const std::int64_t row = index < 0 ? index + rows : index;
    std::byte* const to = a.out + i * a.row_bytes;
    if (row >= 0 && row < rows) {
      copy_row<Unit>(thread.lane(), a.table + static_cast<std::uint64_t>(row) * a.stride, to,
                     a.row_bytes);
    } else {
      clear_row<Unit>(thread.lane(), to, a.row_bytes);
      if (thread.lane() == 0) *a.wrong = i + 1;
    }
  }
}

HOLDFAST_DEVICE void gather_any(const Thread& thread, const RowsArgument& a) {
  switch (a.unit_bytes) {
    case 16: gather<device::Vector>(thread, a); break;
    case 8: gather<std::uint64_t>(thread, a); break;
    case 4: gather<std::uint32_t>(thread, a); break;
    case 2: gather<std::uint16_t>(thread, a); break;
    default: gather<std::uint8_t>(thread, a);
  }
}

}  // namespace
}  // namespace holdfast::datatype

namespace holdfast {

#define ROWS_KERNELS(KERNEL) KERNEL(holdfast_gather_rows, datatype::gather_any)

HOLDFAST_KERNELS(rows, ROWS_KERNELS)

}  // namespace holdfast
