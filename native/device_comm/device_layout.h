// DeviceLayout: elements of a layout in memory of a device, packed and unpacked there: any range of
// bytes of the packed form, so that messages go in pieces. What is a nest of up to four strides is
// moved by its kernel; everything else, and every range that is not the whole, by lists of blocks,
// which are uploaded once, when this is made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "datatype/block_list.h"
#include "datatype/layout.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

// Bytes [first, first + bytes) of a packed form.
struct PackedRange {
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;
};

class DeviceLayout final {
 public:
  // The upload is enqueued on the stream, ahead of what uses it there; without one it is waited
  // for. A caller's thread. kConfigError for a count that Packer refuses; kUnsupported where the
  // build has no kernels, or for more than kMostSegments lists; kSystem when the device is full. In
  // the device's context, as all below.
  static Result<std::shared_ptr<const DeviceLayout>> make(std::shared_ptr<Staged> staged,
                                                          const datatype::TypeLayout& layout,
                                                          std::int64_t count,
                                                          std::optional<device::CuStream> stream);
  // Nothing that was enqueued with it is under way. It makes the context current itself.
  ~DeviceLayout();
  DeviceLayout(const DeviceLayout&) = delete;
  DeviceLayout& operator=(const DeviceLayout&) = delete;

  Staged& staged() const { return *staged_; }
  device::Device& device() const { return staged_->device(); }
  // Of the packed form.
  std::uint64_t bytes() const { return bytes_; }
  bool is_dense() const { return dense_; }

  // kConfigError where the elements' ends are not memory of the device. `base`: displacement zero
  // of the buffer, in all of these.
  Status check(device::DevicePointer base) const;
  // The first byte of a dense layout.
  device::DevicePointer first_of(device::DevicePointer base) const;
  // Enqueue copies between the elements and a run of device memory, which holds the range alone.
  // Unpacking writes no byte outside the range. Any thread: the kernels are loaded.
  Status pack(device::DevicePointer base, PackedRange range, device::DevicePointer packed,
              device::CuStream stream) const;
  Status unpack(device::DevicePointer base, PackedRange range, device::DevicePointer packed,
                device::CuStream stream) const;

  // Most lists of one layout: each has kMostListedBlocks blocks or ends a part of the type, so that
  // what goes beyond it is larger than any memory.
  static constexpr std::size_t kMostSegments = std::size_t{1} << 16;

 private:
  friend class SegmentBuilder;
  // A list of blocks, at one stride again and again, within the packed form.
  struct ListSegment {
    std::uint64_t packed = 0;  // bytes before it
    std::int64_t offset = 0;   // of the list's zero in turn 0, from displacement zero
    std::uint64_t turns = 1;
    std::int64_t stride = 0;
    std::uint64_t turn_bytes = 0;
    std::size_t offsets = 0;  // where the list begins in the uploaded words
    std::size_t before = 0;
    std::uint64_t blocks = 0;
    std::uint64_t granules = 16;  // all numbers of the list, or'ed: what they are multiples of

    std::uint64_t bytes() const { return turns * turn_bytes; }
  };

  explicit DeviceLayout(std::shared_ptr<Staged> staged) : staged_(std::move(staged)) {}
  Status upload(const std::vector<std::int64_t>& words, std::optional<device::CuStream> given);
  Status move(const device::KernelRow& whole, const device::KernelRow& part,
              device::DevicePointer base, PackedRange range, device::DevicePointer packed,
              device::CuStream stream) const;

  const std::shared_ptr<Staged> staged_;  // owners: as Staged says, and layouts
  std::uint64_t bytes_ = 0;
  bool dense_ = false;
  std::int64_t low_ = 0;  // the lowest byte, and the end of the highest
  std::int64_t high_ = 0;
  std::optional<datatype::PlacedStrided> strided_;  // set: it is one, and a kernel can count it
  std::vector<ListSegment> segments_;               // none: dense
  device::DevicePointer lists_ = 0;
};

}  // namespace holdfast::device_comm
