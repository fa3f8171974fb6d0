#include "device_comm/piecewise.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/copy.h"
#include "device/device_address.h"

namespace holdfast::device_comm {

using device::Device;

PieceRing::~PieceRing() {
  Device& device = layout().device();
  const Device::Current current(device);
  for (MessagePiece& piece : slots_) {
    // A lost device has taken its memory along, whatever this returns.
    if (piece.packed != 0) static_cast<void>(device.release(piece.packed, stream_));
    if (piece.host.data == nullptr) continue;
    if (piece.under_way) {
      device.give_after(piece.host, {*piece.event});
    } else {
      device.give(piece.host);
      if (piece.event) device.give_event(*piece.event);
    }
  }
}

Status PieceRing::prepare(device::CuStream stream) {
  stream_ = stream;
  TRY(layout().check(elements_.base));
  Device& device = layout().device();
  const std::uint64_t bytes = std::min(layout().bytes(), kPieceBytes);
  const std::uint64_t used = std::min<std::uint64_t>(pieces(), slots_.size());
  for (std::uint64_t i = 0; i < used; ++i) {
    MessagePiece& piece = slots_[i];
    auto host = device.take(bytes);
    if (!host.is_ok()) return host.status();
    piece.host = host.value();
    auto event = device.take_event();
    if (!event.is_ok()) return event.status();
    piece.event = event.value();
    if (layout().is_dense()) continue;
    auto packed = device.allocate(bytes, stream_);
    if (!packed.is_ok()) return packed.status();
    piece.packed = packed.value();
  }
  return Status::ok();
}

PackedRange PieceRing::range_of(std::uint64_t number) const {
  const std::uint64_t first = number * kPieceBytes;
  return {first, std::min(kPieceBytes, layout().bytes() - first)};
}

Status PieceRing::fetch(std::uint64_t number) {
  MessagePiece& piece = slot_of(number);
  const PackedRange range = range_of(number);
  const device::DevicePointer host = device::number_of(piece.host.data);
  piece.number = number;
  // A copy that was enqueued before it is first on the stream.
  if (piece.packed == 0) {
    TRY(layout().pack(elements_.base, range, host, stream_));
  } else {
    TRY(layout().pack(elements_.base, range, piece.packed, stream_));
    TRY(layout().device().copy(host, piece.packed, range.bytes, stream_));
  }
  return mark(piece);
}

Status PieceRing::store(std::uint64_t number) {
  MessagePiece& piece = slot_of(number);
  const PackedRange range{number * kPieceBytes, piece.filled};
  const device::DevicePointer host = device::number_of(piece.host.data);
  if (piece.packed == 0) {
    TRY(layout().unpack(elements_.base, range, host, stream_));
  } else {
    TRY(layout().device().copy(piece.packed, host, range.bytes, stream_));
    TRY(layout().unpack(elements_.base, range, piece.packed, stream_));
  }
  piece.filled = 0;
  return mark(piece);
}

Status PieceRing::mark(MessagePiece& piece) {
  const Device& device = layout().device();
  piece.under_way = true;
  return device.check(device.driver().event_record(*piece.event, stream_), "recording an event");
}

Status PieceRing::settle(MessagePiece& piece) const {
  if (!piece.under_way) return Status::ok();
  const Device& device = layout().device();
  TRY(device.check(device.driver().event_synchronize(*piece.event), "waiting for a message"));
  piece.under_way = false;
  return Status::ok();
}

Result<std::unique_ptr<DeviceReader>> DeviceReader::make(ElementsOnDevice elements) {
  const Device::Current current(elements.layout->device());
  TRY(current.status());
  const device::CuStream stream = elements.layout->staged().up();
  // The constructor is private: make_unique cannot call it.
  std::unique_ptr<DeviceReader> made(new DeviceReader(std::move(elements)));
  if (made->bytes() == 0) return made;
  TRY(made->ring_.prepare(stream));
  TRY(made->ring_.fetch(0));
  return made;
}

Status DeviceReader::read(std::uint64_t offset, std::span<std::byte> to) {
  CHECK(offset <= bytes() && to.size() <= bytes() - offset);
  while (!to.empty() && status_.is_ok()) {
    const std::uint64_t number = offset / kPieceBytes;
    status_ = bring(number);
    if (!status_.is_ok()) break;
    const std::uint64_t at = offset % kPieceBytes;
    const auto some = std::min<std::uint64_t>(to.size(), kPieceBytes - at);
    copy_bytes(to.data(), ring_.slot_of(number).host.data + at, some);
    offset += some;
    to = to.subspan(some);
  }
  if (!to.empty()) std::memset(to.data(), 0, to.size());
  return status_;
}

Status DeviceReader::bring(std::uint64_t number) {
  PieceRing::MessagePiece& piece = ring_.slot_of(number);
  const bool is_here = piece.number == number && !piece.under_way;
  const bool has_next = number + 1 < ring_.pieces();
  if (is_here && (!has_next || ring_.slot_of(number + 1).number == number + 1)) {
    return Status::ok();
  }
  const Device::Current current(ring_.layout().device());
  TRY(current.status());
  if (piece.number != number) TRY(ring_.fetch(number));
  // The next one is copied while this one is waited for, and read.
  if (has_next && ring_.slot_of(number + 1).number != number + 1) TRY(ring_.fetch(number + 1));
  return ring_.settle(piece);
}

Result<std::unique_ptr<DeviceWriter>> DeviceWriter::make(ElementsOnDevice elements) {
  const Device::Current current(elements.layout->device());
  TRY(current.status());
  const device::CuStream stream = elements.layout->staged().down();
  std::unique_ptr<DeviceWriter> made(new DeviceWriter(std::move(elements)));
  if (made->bytes() > 0) TRY(made->ring_.prepare(stream));
  return made;
}

Status DeviceWriter::write(std::uint64_t offset, std::span<const std::byte> from) {
  CHECK(offset <= bytes() && from.size() <= bytes() - offset);
  if (status_.is_ok()) status_ = put(offset, from);
  return status_;
}

Status DeviceWriter::put(std::uint64_t offset, std::span<const std::byte> from) {
  while (!from.empty()) {
    const std::uint64_t number = offset / kPieceBytes;
    const std::uint64_t at = offset % kPieceBytes;
    PieceRing::MessagePiece& piece = ring_.slot_of(number);
    std::optional<Device::Current> current;
    if (piece.number != number) {
      CHECK(at == 0 && piece.filled == 0);
      current.emplace(ring_.layout().device());
      TRY(current->status());
      TRY(ring_.settle(piece));
      piece.number = number;
    }
    CHECK(piece.filled == at);
    const PackedRange range = ring_.range_of(number);
    const auto some = std::min<std::uint64_t>(from.size(), range.bytes - at);
    copy_bytes(piece.host.data + at, from.data(), some);
    piece.filled += some;
    if (piece.filled == range.bytes) {
      if (!current) current.emplace(ring_.layout().device());
      TRY(current->status());
      TRY(ring_.store(number));
    }
    offset += some;
    from = from.subspan(some);
  }
  return Status::ok();
}

Status DeviceWriter::finish() {
  if (!status_.is_ok()) return status_;
  const Device::Current current(ring_.layout().device());
  status_ = current.status();
  for (PieceRing::MessagePiece& piece : ring_.slots()) {
    if (status_.is_ok() && piece.filled > 0) status_ = ring_.store(piece.number);
  }
  for (PieceRing::MessagePiece& piece : ring_.slots()) {
    if (status_.is_ok()) status_ = ring_.settle(piece);
  }
  return status_;
}

}  // namespace holdfast::device_comm
