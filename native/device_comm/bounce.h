// Bounce: copies between device memory and host memory that is not pinned, through a pinned piece:
// for ops that are staged unexpectedly, when nothing may be pinned, because pinning may wait for a
// device that waits for the op. Piece by piece, driven by the device's stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "device/device.h"
#include "device_comm/staged_binding.h"

namespace holdfast::device_comm {

class Staged;

class Bounce final : public std::enable_shared_from_this<Bounce> {
 public:
  // `piece` is the caller's, until the copy has ended.
  Bounce(std::shared_ptr<Staged> staged, device::Pinned piece)
      : staged_(std::move(staged)), piece_(piece) {}

  // Allocates host memory for a request, and returns the request in it; kSystem without memory.
  Result<comm::OpRequest> bind(const comm::OpRequest& request, Rank rank);

  enum class Direction : std::uint8_t { kUp, kDown };
  // Begins to copy what bind() has found. Calls `ended` once, unless the device is lost: then
  // state() tells it. Any thread.
  void start(Direction way, std::function<void(const Status&)> ended);
  // How the copy has ended; nothing: it is under way. Any thread.
  std::optional<Status> state();

 private:
  // The stream has reached the last piece, or nothing was enqueued yet: enqueues the next piece.
  void step();
  Status enqueue();
  void finish(const Status& status);
  static void came(void* held);

  const std::shared_ptr<Staged> staged_;  // owners: as Staged says, and this
  const device::Pinned piece_;
  std::unique_ptr<std::byte[]> memory_;
  StagedCopies all_;

  // One step at a time uses these.
  Direction way_ = Direction::kUp;
  std::vector<StagedCopy> copies_;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;   // in the copy
  std::uint64_t pending_ = 0;  // bytes under way
  std::function<void(const Status&)> ended_;

  std::mutex mutex_;  // guards state_
  std::optional<Status> state_;
};

}  // namespace holdfast::device_comm
