// Scratch: device memory of our own that other processes can map, kept for the next op. When no
// idle piece fits a request, idle pieces are freed before more is allocated, so that ops of growing
// sizes do not add up.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "device/device.h"

namespace holdfast::device {

class Scratch final {
 public:
  struct Piece {
    DevicePointer at = 0;
    std::uint64_t bytes = 0;
  };

  // `device` outlives this.
  explicit Scratch(Device& device) : device_(device) {}
  // No stream may still use the memory. In the device's context, as all below.
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // kSystem when the device is full. May wait for the device: callers' threads only.
  Result<Piece> take(std::uint64_t bytes);
  // Any thread.
  void give(const Piece& piece);
  // Takes the piece back when the events have happened, and then gives the events to the device.
  // Any thread.
  void give_after(const Piece& piece, std::vector<CuEvent> events);
  // Any thread.
  std::uint64_t bytes() const;

 private:
  struct LentScratch {
    Piece piece;
    std::vector<CuEvent> events;
  };
  void take_back();

  Device& device_;
  mutable std::mutex mutex_;  // guards all below
  std::vector<Piece> idle_;
  std::vector<LentScratch> lent_;
  std::uint64_t bytes_ = 0;  // of all pieces, in use or not
};

}  // namespace holdfast::device
