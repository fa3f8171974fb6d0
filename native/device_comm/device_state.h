// Device state: hashes chunks of device memory where they lie, and copies those that differ, for a
// sync of state (comm/state/sync.py). The digests are those that the CPU makes, so that ranks with
// and without a GPU compare the same digests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "device/state_hash.h"
#include "device_comm/packed.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

class DeviceState final {
 public:
  static Result<std::unique_ptr<DeviceState>> make(std::shared_ptr<Staged> staged);
  // Waits for what it has enqueued.
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  // All below wait for the device: callers' threads. down() may run beside the others; only one
  // thread at a time calls those.

  // Later work here comes after all that the stream has been given. kUnsupported while the stream
  // is captured.
  Status follow(device::CuStream stream);
  // kConfigError where a chunk is not memory of the device; kSystem when there is no memory for the
  // sums of a part of the chunks.
  Status hash(std::span<const device::HashChunk> chunks, std::span<device::DigestBytes> digests);
  Status down(std::byte* pinned, device::DevicePointer from, std::uint64_t bytes);
  Status up(device::DevicePointer to, const std::byte* pinned, std::uint64_t bytes);
  // Copies an array with gaps into a run of memory, which this object keeps for its lifetime.
  // Returns the run's address.
  Result<device::DevicePointer> pack(const GappedArray& array);
  // Copies the runs back into their arrays.
  Status unpack();

 private:
  struct HashRoom;
  explicit DeviceState(std::shared_ptr<Staged> staged) : staged_(std::move(staged)) {}
  Status hash_some(std::span<const device::HashChunk> chunks,
                   std::span<device::DigestBytes> digests);
  Status hash_in(const HashRoom& room, std::span<const device::HashChunk> chunks) const;
  Status wait(device::CuStream stream, std::string_view what) const;

  const std::shared_ptr<Staged> staged_;
  device::CuStream own_;
  device::CuStream down_;
  std::vector<Packed> packed_;
};

}  // namespace holdfast::device_comm
