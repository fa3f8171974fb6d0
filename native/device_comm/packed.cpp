#include "device_comm/packed.h"

#include "device/device_address.h"

namespace holdfast::device_comm {

using device::Device;
using device::DevicePointer;

namespace {

DevicePointer moved(DevicePointer address, std::int64_t bytes) {
  return address + static_cast<DevicePointer>(bytes);
}

}  // namespace

Result<Packed> Packed::make(Device& device, device::LoadedKernels& kernels,
                            const GappedArray& array, bool written, device::CuStream stream) {
  if (written && datatype::may_overlap(array.shape)) {
    return Status(Code::kConfigError,
                  "an output of which several elements may be one memory (expanded?); accepted: "
                  "an array whose elements have a place each");
  }
  Packed packed;
  packed.bytes_ = datatype::packed_bytes(array.shape);
  packed.written_ = written;
  packed.array_ = array;
  auto all = datatype::pieces(array.shape);
  if (!all.is_ok()) return all.status();
  packed.pieces_ = std::move(all).value();
  if (packed.bytes_ == 0) return packed;
  if (!device.has_pools()) {
    return Status(Code::kUnsupported, device.name() +
                                          " has no memory pools, which arrays with gaps need; "
                                          "accepted: contiguous arrays");
  }
  const datatype::ArrayExtent extent = datatype::extent(array.shape);
  TRY(device.check_memory(moved(array.first, extent.low),
                          static_cast<std::uint64_t>(extent.high - extent.low),
                          "an array with gaps"));
  // Both are loaded now: unpacking may be on a thread that must not load anything.
  TRY(kernels.load(datatype::pack_kernel()));
  TRY(kernels.load(datatype::unpack_kernel()));
  auto memory = device.allocate(packed.bytes_, stream);
  if (!memory.is_ok()) return memory.status();
  packed.at_ = memory.value();
  return packed;
}

Status Packed::pack(device::LoadedKernels& kernels, device::CuStream stream) const {
  return move(kernels, datatype::pack_kernel(), stream);
}

Status Packed::unpack(device::LoadedKernels& kernels, device::CuStream stream) const {
  return move(kernels, datatype::unpack_kernel(), stream);
}

Status Packed::move(device::LoadedKernels& kernels, const device::KernelRow& row,
                    device::CuStream stream) const {
  for (const datatype::ArrayPiece& piece : pieces_) {
    const auto argument = datatype::strided_argument(
        piece.shape, device::pointer_to(moved(array_.first, piece.strided_offset)),
        device::pointer_to(at_ + piece.packed_offset));
    if (!argument.is_ok()) return argument.status();
    TRY(kernels.launch(row, argument.value().units, &argument.value(), stream));
  }
  return Status::ok();
}

Status Packed::release(Device& device, device::CuStream stream) const {
  return at_ == 0 ? Status::ok() : device.release(at_, stream);
}

}  // namespace holdfast::device_comm
