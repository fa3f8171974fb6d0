// Peer memory: device memory of other processes of the host, mapped by CUDA IPC so that kernels
// here read it in place. No process writes another's memory. Mappings are kept for the next op and
// closed on callers' threads, because closing may wait for the device. Closed are mappings of a
// process that has left, of memory that its owner has replaced, and the oldest of too many.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"

namespace holdfast::device {

// Limit of kept mappings; mappings in use may exceed it.
inline constexpr std::size_t kMostMappings = 256;

// Describes a piece of memory for other processes. Sent as bytes between ranks of one build.
struct PeerPiece {
  CuIpcMemory handle;
  std::uint64_t buffer = 0;  // unique per allocation of its process
  std::uint64_t base = 0;    // begin of the allocation in its process
  std::uint64_t range = 0;   // bytes of the allocation
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class DeviceMemoryOfPeers final {
 public:
  // The owner's number, and the buffer's.
  using AllocationKey = std::pair<std::uint64_t, std::uint64_t>;

  // `device` outlives this.
  explicit DeviceMemoryOfPeers(const Device& device) : device_(device) {}
  // No mapping may be in use on the device. In the device's context.
  ~DeviceMemoryOfPeers();
  DeviceMemoryOfPeers(const DeviceMemoryOfPeers&) = delete;
  DeviceMemoryOfPeers& operator=(const DeviceMemoryOfPeers&) = delete;

  // Call all below in the device's context, from any thread.

  // nullopt when this memory has no handle: it is of a pool, or mapped piece by piece.
  std::optional<PeerPiece> expose(DevicePointer memory, std::uint64_t bytes) const;
  // Maps a piece of another process, which is in use until done(key); `owner` is that process's
  // number. The driver's error when this device does not reach the memory, or the process has
  // ended.
  Result<DevicePointer> open(std::uint64_t owner, const PeerPiece& piece);
  void done(const AllocationKey& key);
  // Sets the owner that has this rank of a group now; 0: none. Mappings of the owner before are
  // closed soon.
  void seat(const std::string& group, int rank, std::uint64_t owner);
  // How many allocations are mapped. No context needed.
  std::size_t mapped() const;
  // Closes mappings that are due. Callers' threads only.
  void close_due();

 private:
  struct Mapping {
    DevicePointer at = 0;
    std::uint64_t base = 0;
    std::uint64_t range = 0;
    std::uint64_t used = 0;  // clock_ of the last use
    int users = 0;
    bool due = false;
  };
  void retire_overlapping(std::uint64_t owner, const PeerPiece& piece);

  const Device& device_;
  mutable std::mutex mutex_;  // guards all below
  std::map<AllocationKey, Mapping> mappings_;
  std::map<std::pair<std::string, int>, std::uint64_t> seats_;
  std::uint64_t clock_ = 0;
};

}  // namespace holdfast::device
