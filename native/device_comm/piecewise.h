// Piecewise: the packed form of elements in device memory, read and written by the host in order,
// piece by piece: one is copied over the bus while another is used. What has gaps is packed on the
// device first. For messages, whose other end gives and takes bytes when it likes.
//
// Host memory: two pinned pieces, while it lasts; device memory: as much, for what has gaps. Both
// wait for the copy of a piece, on streams of ours, which wait for nothing of the caller's: the
// memory must be ready when one is made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "device_comm/device_layout.h"

namespace holdfast::device_comm {

// Large enough for the bus, small enough that a message does not wait long for its first.
inline constexpr std::uint64_t kPieceBytes = 1U << 20;

struct ElementsOnDevice {
  std::shared_ptr<const DeviceLayout> layout;  // owners: its cache, and what moves
  device::DevicePointer base = 0;              // displacement zero
};

// The two pieces, and which bytes are in each.
class PieceRing final {
 public:
  explicit PieceRing(ElementsOnDevice elements) : elements_(std::move(elements)) {}
  // Gives everything back when what is under way has ended. Makes the context current itself.
  ~PieceRing();
  PieceRing(const PieceRing&) = delete;
  PieceRing& operator=(const PieceRing&) = delete;

  struct MessagePiece {
    device::Pinned host;
    device::DevicePointer packed = 0;  // on the device; 0: the elements are dense
    std::optional<device::CuEvent> event;
    std::uint64_t number = UINT64_MAX;  // which one of the packed form
    std::uint64_t filled = 0;           // bytes that the host has written
    bool under_way = false;
  };

  // Takes all memory. In the device's context, as all below; a caller's thread.
  Status prepare(device::CuStream stream);
  const DeviceLayout& layout() const { return *elements_.layout; }
  std::uint64_t pieces() const { return (layout().bytes() + kPieceBytes - 1) / kPieceBytes; }
  MessagePiece& slot_of(std::uint64_t number) { return slots_[number % slots_.size()]; }
  std::span<MessagePiece> slots() { return slots_; }
  PackedRange range_of(std::uint64_t number) const;
  // Enqueue the way of a piece from the elements to the host, and of its first bytes back.
  Status fetch(std::uint64_t number);
  Status store(std::uint64_t number);
  // Waits until nothing of the piece is under way.
  Status settle(MessagePiece& piece) const;

 private:
  Status mark(MessagePiece& piece);

  const ElementsOnDevice elements_;
  device::CuStream stream_;
  std::array<MessagePiece, 2> slots_;
};

// One thread at a time.
class DeviceReader final {
 public:
  // Begins to read. kConfigError where the elements are not memory of the device; kSystem without
  // memory for the pieces. A caller's thread; makes the context current itself, as all do here.
  static Result<std::unique_ptr<DeviceReader>> make(ElementsOnDevice elements);
  std::uint64_t bytes() const { return ring_.layout().bytes(); }
  // Bytes [offset, offset + to.size()) of the packed form, zeros after an error. Any thread; waits
  // for the device.
  Status read(std::uint64_t offset, std::span<std::byte> to);
  const Status& status() const { return status_; }

 private:
  explicit DeviceReader(ElementsOnDevice elements) : ring_(std::move(elements)) {}
  Status bring(std::uint64_t number);

  PieceRing ring_;
  Status status_;
};

// One thread at a time.
class DeviceWriter final {
 public:
  // As DeviceReader::make().
  static Result<std::unique_ptr<DeviceWriter>> make(ElementsOnDevice elements);
  std::uint64_t bytes() const { return ring_.layout().bytes(); }
  // Bytes from `offset` on, which is where the last call ended. Any thread; waits for the device.
  Status write(std::uint64_t offset, std::span<const std::byte> from);
  // What was written is in the elements, and no other byte has changed. Any thread; once or more.
  Status finish();

 private:
  explicit DeviceWriter(ElementsOnDevice elements) : ring_(std::move(elements)) {}
  Status put(std::uint64_t offset, std::span<const std::byte> from);

  PieceRing ring_;
  Status status_;
};

}  // namespace holdfast::device_comm
