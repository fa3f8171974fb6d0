#include "device_comm/packed.h"

#include "datatype/array_layout.h"
#include "device/device_address.h"
#include "device_comm/device_layout.h"

namespace holdfast::device_comm {

using device::Device;
using device::DevicePointer;

namespace {}  // namespace

Result<Packed> Packed::make(const std::shared_ptr<Staged>& staged, const GappedArray& array,
                            bool written, device::CuStream stream) {
  Device& device = staged->device();
  device::LoadedKernels& kernels = staged->kernels();
  if (written && datatype::may_overlap(array.shape)) {
    return Status(Code::kConfigError,
                  "an output of which several elements may be one memory (expanded?); accepted: "
                  "an array whose elements have a place each");
  }
  Packed packed;
  packed.bytes_ = datatype::packed_bytes(array.shape);
  packed.written_ = written;
  packed.array_ = array;
  if (packed.bytes_ == 0) return packed;
  if (!device.has_pools()) {
    return Status(Code::kUnsupported, device.name() +
                                          " has no memory pools, which arrays with gaps need; "
                                          "accepted: contiguous arrays");
  }
  const datatype::ArrayExtent extent = datatype::extent(array.shape);
  TRY(device.check_memory(device::moved(array.first, extent.low),
                          static_cast<std::uint64_t>(extent.high - extent.low),
                          "an array with gaps"));
  // Both are loaded now: unpacking may be on a thread that must not load anything.
  TRY(kernels.load(datatype::pack_kernel()));
  TRY(kernels.load(datatype::unpack_kernel()));
  if (auto pieces = datatype::pieces(array.shape); pieces.is_ok()) {
    packed.pieces_ = std::move(pieces).value();
  } else {
    const auto layout = datatype::gapped_array(array.shape);
    if (!layout.is_ok()) return layout.status();
    auto listed = DeviceLayout::make(staged, layout.value(), 1, stream);
    if (!listed.is_ok()) return listed.status();
    packed.listed_ = std::move(listed).value();
  }
  auto memory = device.allocate(packed.bytes_, stream);
  if (!memory.is_ok()) return memory.status();
  packed.at_ = memory.value();
  return packed;
}

Status Packed::pack(device::LoadedKernels& kernels, device::CuStream stream) const {
  if (listed_ != nullptr) return listed_->pack(array_.first, {0, bytes_}, at_, stream);
  return move(kernels, datatype::pack_kernel(), stream);
}

Status Packed::unpack(device::LoadedKernels& kernels, device::CuStream stream) const {
  if (listed_ != nullptr) return listed_->unpack(array_.first, {0, bytes_}, at_, stream);
  return move(kernels, datatype::unpack_kernel(), stream);
}

Status Packed::move(device::LoadedKernels& kernels, const device::KernelRow& row,
                    device::CuStream stream) const {
  for (const datatype::ArrayPiece& piece : pieces_) {
    const auto argument = datatype::strided_argument(
        piece.shape, device::pointer_to(device::moved(array_.first, piece.strided_offset)),
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
