#include "device_comm/device_layout.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <string>

#include "base/check.h"
#include "datatype/typemap/block_cursor.h"
#include "device/device_address.h"

namespace holdfast::device_comm {

using datatype::LayoutNode;
using datatype::NodeKind;
using datatype::NodeRef;
using device::Device;
using device::DevicePointer;

namespace {}  // namespace

// Cuts a layout's tree into lists of blocks that are not too long; what a loop repeats is listed
// once.
class SegmentBuilder {
 public:
  using ListSegment = DeviceLayout::ListSegment;

  Status add(const NodeRef& node, std::int64_t offset, std::uint64_t packed) {
    const bool is_loop = node->kind == NodeKind::kLoop;
    const NodeRef& turn = is_loop ? node->child : node;
    if (turn->blocks <= datatype::kMostListedBlocks) {
      ListSegment segment = listed(turn);
      segment.packed = packed;
      segment.offset = offset;
      segment.turns = is_loop ? node->count : 1;
      segment.stride = is_loop ? node->stride : 0;
      if (segment.turns > 1) segment.granules |= static_cast<std::uint64_t>(segment.stride);
      return push(segment);
    }
    if (is_loop) {
      for (std::uint64_t i = 0; i < node->count; ++i) {
        TRY(add(turn, offset + static_cast<std::int64_t>(i) * node->stride,
                packed + i * turn->size));
      }
      return Status::ok();
    }
    if (node->kind == NodeKind::kParts) {
      for (std::size_t i = 0; i < node->parts.size(); ++i) {
        TRY(add(node->parts[i], offset + node->offsets[i], packed + node->packed_at(i)));
      }
      return Status::ok();
    }
    return add_long_list(node, offset, packed);
  }

  std::vector<ListSegment> segments;
  std::vector<std::int64_t> words;  // of all lists

 private:
  Status push(const ListSegment& segment) {
    if (segments.size() == DeviceLayout::kMostSegments) {
      return {Code::kUnsupported, "a datatype of more than " +
                                      std::to_string(DeviceLayout::kMostSegments) + " lists of " +
                                      std::to_string(datatype::kMostListedBlocks) +
                                      " blocks in device memory; accepted: smaller ones"};
    }
    segments.push_back(segment);
    return Status::ok();
  }

  ListSegment listed(const NodeRef& node) {
    const auto known = known_.find(node.get());
    if (known != known_.end()) return known->second;
    datatype::BlockCursor cursor(node, 0);
    ListSegment made;
    take(cursor, UINT64_MAX, &made);
    known_.emplace(node.get(), made);
    return made;
  }

  Status add_long_list(const NodeRef& node, std::int64_t offset, std::uint64_t packed) {
    datatype::BlockCursor cursor(node, 0);
    for (std::uint64_t done = 0; done < node->size;) {
      ListSegment segment;
      take(cursor, datatype::kMostListedBlocks, &segment);
      segment.packed = packed + done;
      segment.offset = offset;
      done += segment.turn_bytes;
      TRY(push(segment));
    }
    return Status::ok();
  }

  // Appends up to `most` blocks to the words.
  void take(datatype::BlockCursor& cursor, std::uint64_t most, ListSegment* segment) {
    std::vector<std::int64_t> before{0};
    segment->offsets = words.size();
    for (datatype::ByteBlock block; before.size() <= most && cursor.next_run(block);) {
      words.push_back(block.offset);
      before.push_back(before.back() + static_cast<std::int64_t>(block.length));
      segment->granules |= static_cast<std::uint64_t>(block.offset | before.back());
    }
    segment->blocks = before.size() - 1;
    segment->turn_bytes = static_cast<std::uint64_t>(before.back());
    segment->before = words.size();
    words.insert(words.end(), before.begin(), before.end());
  }

  std::map<const LayoutNode*, ListSegment> known_;  // ordered: nothing depends on the order
};

Result<std::shared_ptr<const DeviceLayout>> DeviceLayout::make(
    std::shared_ptr<Staged> staged, const datatype::TypeLayout& layout, std::int64_t count,
    std::optional<device::CuStream> stream) {
  const auto all = datatype::TypeLayout::contiguous(count, layout);
  if (!all.is_ok()) return all.status();
  const datatype::TypeLayout& whole = all.value();
  // The constructor is private: make_shared cannot call it.
  std::shared_ptr<DeviceLayout> made(new DeviceLayout(std::move(staged)));
  made->bytes_ = whole.size();
  made->low_ = whole.true_lb();
  made->high_ = whole.true_ub();
  made->dense_ = whole.is_dense();
  if (made->dense_) return std::shared_ptr<const DeviceLayout>(std::move(made));
  auto strided = datatype::as_strided(layout, count);
  if (!strided.is_ok()) return strided.status();
  if (made->bytes_ < datatype::kMostUnits) made->strided_ = strided.value();
  SegmentBuilder builder;
  TRY(builder.add(whole.node(), whole.origin(), 0));
  made->segments_ = std::move(builder.segments);
  device::LoadedKernels& kernels = made->staged_->kernels();
  for (const device::KernelRow* row :
       {&datatype::pack_kernel(), &datatype::unpack_kernel(), &datatype::pack_list_kernel(),
        &datatype::unpack_list_kernel()}) {
    TRY(kernels.load(*row));
  }
  TRY(made->upload(builder.words, stream));
  return std::shared_ptr<const DeviceLayout>(std::move(made));
}

Status DeviceLayout::upload(const std::vector<std::int64_t>& words,
                            std::optional<device::CuStream> given) {
  const std::uint64_t bytes = words.size() * sizeof(std::int64_t);
  const device::CuStream stream = given.value_or(staged_->down());
  auto memory = device().allocate(bytes, stream);
  if (!memory.is_ok()) return memory.status();
  lists_ = memory.value();
  auto pinned = device().take(bytes);
  if (!pinned.is_ok()) return pinned.status();
  std::memcpy(pinned.value().data, words.data(), bytes);
  // After an error the device may still read it: then it is not given back.
  TRY(device().copy(lists_, device::number_of(pinned.value().data), bytes, stream));
  const device::CudaDriver& driver = device().driver();
  if (!given) {
    TRY(device().check(driver.stream_synchronize(stream), "copying a datatype"));
    device().give(pinned.value());
    return Status::ok();
  }
  auto event = device().take_event();
  if (!event.is_ok()) return event.status();
  TRY(device().check(driver.event_record(event.value(), stream), "recording an event"));
  device().give_after(pinned.value(), {event.value()});
  return Status::ok();
}

DeviceLayout::~DeviceLayout() {
  if (lists_ == 0) return;
  const Device::Current current(device());
  // A lost device has taken its memory along, whatever this returns.
  [[maybe_unused]] const Status released = device().release(lists_, staged_->down());
}

Status DeviceLayout::check(DevicePointer base) const {
  if (bytes_ == 0) return Status::ok();
  return device().check_memory(device::moved(base, low_), static_cast<std::uint64_t>(high_ - low_),
                               "a buffer");
}

DevicePointer DeviceLayout::first_of(DevicePointer base) const { return device::moved(base, low_); }

Status DeviceLayout::pack(DevicePointer base, PackedRange range, DevicePointer packed,
                          device::CuStream stream) const {
  if (dense_) {
    return device().copy(packed, first_of(base) + range.first, range.bytes, stream);
  }
  return move(datatype::pack_kernel(), datatype::pack_list_kernel(), base, range, packed, stream);
}

Status DeviceLayout::unpack(DevicePointer base, PackedRange range, DevicePointer packed,
                            device::CuStream stream) const {
  if (dense_) {
    return device().copy(first_of(base) + range.first, packed, range.bytes, stream);
  }
  return move(datatype::unpack_kernel(), datatype::unpack_list_kernel(), base, range, packed,
              stream);
}

Status DeviceLayout::move(const device::KernelRow& whole, const device::KernelRow& part,
                          DevicePointer base, PackedRange range, DevicePointer packed,
                          device::CuStream stream) const {
  CHECK(range.first <= bytes_ && range.bytes <= bytes_ - range.first);
  if (range.bytes == 0) return Status::ok();
  device::LoadedKernels& kernels = staged_->kernels();
  if (strided_ && range.bytes == bytes_) {
    const auto argument = datatype::strided_argument(
        strided_->shape, device::pointer_to(device::moved(base, strided_->origin)),
        device::pointer_to(packed));
    if (!argument.is_ok()) return argument.status();
    return kernels.launch(whole, argument.value().units, &argument.value(), stream);
  }
  const std::uint64_t end = range.first + range.bytes;
  auto segment = std::ranges::upper_bound(segments_, range.first, {}, &ListSegment::packed) - 1;
  for (std::uint64_t at = range.first; at < end; ++segment) {
    const std::uint64_t some = std::min(end, segment->packed + segment->bytes()) - at;
    datatype::BlockListArgument argument{};
    argument.strided = device::pointer_to(device::moved(base, segment->offset));
    argument.packed = device::pointer_to(packed + (at - range.first));
    argument.offsets =
        reinterpret_cast<const std::int64_t*>(device::pointer_to(lists_)) + segment->offsets;
    argument.before =
        reinterpret_cast<const std::uint64_t*>(device::pointer_to(lists_)) + segment->before;
    argument.blocks = segment->blocks;
    argument.turn_bytes = segment->turn_bytes;
    argument.stride = segment->stride;
    argument.first = at - segment->packed;
    const std::uint64_t granules = segment->granules | argument.first | some |
                                   device::moved(base, segment->offset) |
                                   device::number_of(argument.packed);
    argument.unit_bytes = std::uint32_t{1} << std::countr_zero(granules);
    argument.units = some / argument.unit_bytes;
    TRY(kernels.launch(part, argument.units, &argument, stream));
    at += some;
  }
  return Status::ok();
}

}  // namespace holdfast::device_comm
