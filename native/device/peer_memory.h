// Peer memory: device memory of other processes of the host, mapped by CUDA IPC so that kernels
// here read it where it lies. Nobody writes another's memory. Mappings are kept for the next op and
// closed on callers' threads, for closing may wait for the device: those of a process that has
// left, of memory that its owner has replaced, and the oldest of too many.
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

// Mappings that are kept, at most; those in use come on top.
inline constexpr std::size_t kMostMappings = 256;

// Where memory lies, for other processes. Travels as bytes between ranks of one build.
struct PeerPiece {
  CuIpcMemory handle;
  std::uint64_t buffer = 0;  // of each allocation of its process another
  std::uint64_t base = 0;    // where the allocation begins, in its process
  std::uint64_t range = 0;   // and how long it is
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class DeviceMemoryOfPeers final {
 public:
  // An owner's allocation.
  using AllocationKey = std::pair<std::uint64_t, std::uint64_t>;

  // `device` outlives this.
  explicit DeviceMemoryOfPeers(const Device& device) : device_(device) {}
  // Nothing of it may be in use on the device. In its context.
  ~DeviceMemoryOfPeers();
  DeviceMemoryOfPeers(const DeviceMemoryOfPeers&) = delete;
  DeviceMemoryOfPeers& operator=(const DeviceMemoryOfPeers&) = delete;

  // All below in the device's context; any thread.

  // Nothing where this memory has no handle: of a pool, or mapped piece by piece.
  std::optional<PeerPiece> expose(DevicePointer memory, std::uint64_t bytes) const;
  // A piece of another process, which is in use until done(key); `owner` is its number. With the
  // driver's error where this device does not reach it, or the process has ended.
  Result<DevicePointer> open(std::uint64_t owner, const PeerPiece& piece);
  void done(const AllocationKey& key);
  // Who has this place of a group now; 0: nobody. Mappings of who had it before are closed soon.
  void seat(const std::string& group, int rank, std::uint64_t owner);
  // How many allocations are mapped. No context needed.
  std::size_t mapped() const;
  // Closes what is due. Callers' threads only.
  void close_due();

 private:
  struct Mapping {
    DevicePointer at = 0;
    std::uint64_t base = 0;
    std::uint64_t range = 0;
    std::uint64_t used = 0;  // when last
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
