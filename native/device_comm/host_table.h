// Host table: rows in host memory that the threads of a GPU read where they lie, over the bus, line
// by line: no gather by the processor, and no copy of rows that no index names.
// Source: Min et al., "PyTorch-Direct: Enabling GPU Centric Data Access for Very Large Graph Neural
// Network Training with Irregular Accesses", 2021, sections 3-4 (aligned accesses).
// Why: docs/decisions/0080-gathering-where-the-index-is.md
#pragma once

#include <cstdint>
#include <memory>

#include "device/loaded_kernels.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

class HostTable final {
 public:
  // Pins the table's memory, which stays the caller's and must outlive this object: kSystem when
  // the system does not let it. `row_bytes` > 0. May wait for the device.
  static Result<std::unique_ptr<HostTable>> make(std::shared_ptr<Staged> staged, std::byte* table,
                                                 std::uint64_t rows, std::uint64_t row_bytes);
  // Waits for gathers under way.
  ~HostTable();
  HostTable(const HostTable&) = delete;
  HostTable& operator=(const HostTable&) = delete;

  // out[i] = table[index[i]] for `count` int64 numbers; both are memory of the device. Enqueued; a
  // row whose number is out of range becomes zeros, and take_wrong_index() tells of it. One thread
  // at a time.
  Status gather(device::DevicePointer index, std::uint64_t count, device::DevicePointer out,
                device::CuStream stream);
  // `second` waits for all that `first` has been given.
  Status order(device::CuStream first, device::CuStream second);
  // A stream of the table's own, for gathers beside what the caller's streams do.
  device::CuStream stream() const { return own_; }
  // Whether a gather that has ended met a number out of range; forgets it.
  bool take_wrong_index();

 private:
  HostTable(std::shared_ptr<Staged> staged, std::byte* table, std::uint64_t rows,
            std::uint64_t row_bytes, std::uint32_t processors)
      : staged_(std::move(staged)),
        table_(table),
        rows_(rows),
        row_bytes_(row_bytes),
        kernels_(staged_->device().driver_table(), processors) {}
  Status pin();

  const std::shared_ptr<Staged> staged_;
  std::byte* const table_;
  const std::uint64_t rows_;
  const std::uint64_t row_bytes_;
  bool pinned_ = false;
  device::DevicePointer seen_ = 0;  // the table, as the device sees it
  device::Pinned wrong_;            // an u64
  device::DevicePointer seen_wrong_ = 0;
  device::CuStream own_;  // reaches its end behind every gather
  device::LoadedKernels kernels_;
};

}  // namespace holdfast::device_comm
