#include "device_comm/host_table.h"

#include <atomic>
#include <string>

#include "datatype/rows.h"
#include "device_comm/staged_binding.h"

namespace holdfast::device_comm {

using device::Device;
using device::DevicePointer;

namespace {

std::uint64_t& number_at(const device::Pinned& memory) {
  return *reinterpret_cast<std::uint64_t*>(memory.data);
}

}  // namespace

Result<std::unique_ptr<HostTable>> HostTable::make(std::shared_ptr<Staged> staged, std::byte* table,
                                                   std::uint64_t rows, std::uint64_t row_bytes) {
  Device& device = staged->device();
  const Device::Current current(device);
  TRY(current.status());
  auto processors = device.processors();
  if (!processors.is_ok()) return processors.status();
  // The constructor is private: make_unique cannot call it.
  std::unique_ptr<HostTable> made(
      new HostTable(std::move(staged), table, rows, row_bytes, processors.value()));
  TRY(made->pin());
  return made;
}

Status HostTable::pin() {
  Device& device = staged_->device();
  const device::CudaDriver& driver = device.driver();
  const std::uint64_t bytes = rows_ * row_bytes_;
  if (bytes > 0) {
    TRY(device.check(
        driver.mem_host_register(table_, bytes, device::kHostPortable | device::kHostDeviceMap),
        "pinning a table of " + std::to_string(bytes) + " bytes"));
    pinned_ = true;
    TRY(device.check(driver.mem_host_get_device_pointer(&seen_, table_, 0), "mapping the table"));
  }
  auto wrong = device.take(sizeof(std::uint64_t));
  if (!wrong.is_ok()) return wrong.status();
  wrong_ = wrong.value();
  number_at(wrong_) = 0;
  TRY(device.check(driver.mem_host_get_device_pointer(&seen_wrong_, wrong_.data, 0),
                   "mapping a flag"));
  auto stream = device.make_stream();
  if (!stream.is_ok()) return stream.status();
  own_ = stream.value();
  return Status::ok();
}

HostTable::~HostTable() {
  Device& device = staged_->device();
  const Device::Current current(device);
  // A lost device reads nothing any more, whatever these calls return.
  if (own_.value != nullptr) {
    device.driver().stream_synchronize(own_);
    device.driver().stream_destroy(own_);
  }
  kernels_.unload();
  if (pinned_) device.driver().mem_host_unregister(table_);
  if (wrong_.data != nullptr) device.give(wrong_);
}

Status HostTable::gather(DevicePointer index, std::uint64_t count, DevicePointer out,
                         device::CuStream stream) {
  if (count == 0) return Status::ok();
  Device& device = staged_->device();
  const Device::Current current(device);
  TRY(current.status());
  TRY(device.check_capture(stream, "a gather from a host table"));
  TRY(device.check_memory(index, count * sizeof(std::int64_t), "the index"));
  TRY(device.check_memory(out, count * row_bytes_, "the gathered rows"));
  const std::span<const std::int64_t> numbers(reinterpret_cast<const std::int64_t*>(pointer(index)),
                                              count);
  const datatype::RowsArgument argument =
      datatype::rows_argument(pointer(seen_), rows_, row_bytes_, row_bytes_, numbers, pointer(out),
                              reinterpret_cast<std::uint64_t*>(pointer(seen_wrong_)));
  TRY(kernels_.launch(datatype::rows_kernel(), datatype::rows_threads(argument), &argument,
                      stream));
  return stream == own_ ? Status::ok() : device.order(stream, own_);
}

Status HostTable::order(device::CuStream first, device::CuStream second) {
  const Device::Current current(staged_->device());
  TRY(current.status());
  return staged_->device().order(first, second);
}

bool HostTable::take_wrong_index() {
  // The device writes it: an atomic read of memory that is no object of ours.
  return std::atomic_ref(number_at(wrong_)).exchange(0, std::memory_order_relaxed) != 0;
}

}  // namespace holdfast::device_comm
