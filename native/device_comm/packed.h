// Packed: an array in device memory that has gaps, and its elements in one run of device memory
// beside it, for ops that take runs only. Each way is a pass over the device's own memory, which
// costs little beside the bus.
// Why: docs/decisions/0092-arrays-with-gaps.md
#pragma once

#include <memory>
#include <vector>

#include "datatype/array_shape.h"
#include "device/device.h"
#include "device/loaded_kernels.h"

namespace holdfast::device_comm {

class DeviceLayout;
class Staged;

// Where an array lies.
struct GappedArray {
  device::DevicePointer first = 0;  // its first element
  datatype::ArrayShape shape;
};

// One owner. release(), which needs a stream, frees its memory.
class Packed final {
 public:
  // Takes memory on the stream. kConfigError where elements are not memory of the device, or, if it
  // is `written`, where several elements may be one memory; kUnsupported where the device has no
  // memory pools, or the build has no kernels; kSystem when the device is full. In the device's
  // context, as all below; a caller's thread.
  static Result<Packed> make(const std::shared_ptr<Staged>& staged, const GappedArray& array,
                             bool written, device::CuStream stream);

  device::DevicePointer at() const { return at_; }
  std::uint64_t bytes() const { return bytes_; }
  bool written() const { return written_; }

  // pack() enqueues a copy of the elements into the run; unpack() enqueues the copy back, and loads
  // no kernel.
  Status pack(device::LoadedKernels& kernels, device::CuStream stream) const;
  Status unpack(device::LoadedKernels& kernels, device::CuStream stream) const;
  // Frees the memory, once, behind all that uses it on the stream. This may go when Staged::down()
  // comes after all that uses it.
  Status release(device::Device& device, device::CuStream stream) const;

 private:
  Status move(device::LoadedKernels& kernels, const device::KernelRow& row,
              device::CuStream stream) const;

  device::DevicePointer at_ = 0;
  std::uint64_t bytes_ = 0;
  bool written_ = false;
  GappedArray array_;
  std::vector<datatype::ArrayPiece> pieces_;
  // In place of the pieces, where there would be too many. Owners: this and its copies, which are
  // gone when nothing of it is under way any more.
  std::shared_ptr<const DeviceLayout> listed_;
};

}  // namespace holdfast::device_comm
