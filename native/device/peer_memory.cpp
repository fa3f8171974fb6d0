#include "device/peer_memory.h"

#include <algorithm>

namespace holdfast::device {

DeviceMemoryOfPeers::~DeviceMemoryOfPeers() {
  for (const auto& [key, mapping] : mappings_) device_.driver().ipc_close_mem_handle(mapping.at);
}

std::optional<PeerPiece> DeviceMemoryOfPeers::expose(DevicePointer memory,
                                                     std::uint64_t bytes) const {
  const CudaDriver& d = device_.driver();
  PeerPiece piece;
  std::size_t range = 0;
  DevicePointer base = 0;
  const bool known =
      d.pointer_get_attribute(&base, PointerAttribute::kRangeStart, memory) == Cu::kSuccess &&
      d.pointer_get_attribute(&range, PointerAttribute::kRangeBytes, memory) == Cu::kSuccess &&
      d.pointer_get_attribute(&piece.buffer, PointerAttribute::kBufferId, memory) == Cu::kSuccess &&
      d.ipc_get_mem_handle(&piece.handle, base) == Cu::kSuccess;
  if (!known || memory + bytes > base + range) return std::nullopt;
  piece.base = base;
  piece.range = range;
  piece.offset = memory - base;
  piece.bytes = bytes;
  return piece;
}

Result<DevicePointer> DeviceMemoryOfPeers::open(std::uint64_t owner, const PeerPiece& piece) {
  // The piece comes from another process, so it is checked.
  if (piece.offset > piece.range || piece.bytes > piece.range - piece.offset) {
    return Status(Code::kProtocolError, "a piece of device memory that is not in its allocation");
  }
  const std::lock_guard lock(mutex_);
  const AllocationKey key{owner, piece.buffer};
  auto found = mappings_.find(key);
  if (found == mappings_.end()) {
    retire_overlapping(owner, piece);
    DevicePointer at = 0;
    TRY(device_.check(device_.driver().ipc_open_mem_handle(&at, piece.handle, kIpcLazyPeerAccess),
                      "mapping device memory of another process"));
    found = mappings_.emplace(key, Mapping{at, piece.base, piece.range}).first;
  }
  Mapping& mapping = found->second;
  ++mapping.users;
  mapping.used = ++clock_;
  return mapping.at + piece.offset;
}

// The caller holds mutex_. The owner has freed any allocation that overlaps its new one.
void DeviceMemoryOfPeers::retire_overlapping(std::uint64_t owner, const PeerPiece& piece) {
  for (auto& [key, mapping] : mappings_) {
    const bool overlaps =
        mapping.base < piece.base + piece.range && piece.base < mapping.base + mapping.range;
    if (key.first == owner && overlaps) mapping.due = true;
  }
}

void DeviceMemoryOfPeers::done(const AllocationKey& key) {
  const std::lock_guard lock(mutex_);
  if (const auto found = mappings_.find(key); found != mappings_.end()) --found->second.users;
}

void DeviceMemoryOfPeers::seat(const std::string& group, int rank, std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& seated = seats_[{group, rank}];
  const std::uint64_t before = std::exchange(seated, owner);
  if (before == owner || before == 0) return;
  // The owner before may still have a rank in another group.
  const bool stays = std::any_of(seats_.begin(), seats_.end(),
                                 [&](const auto& seat) { return seat.second == before; });
  if (stays) return;
  for (auto& [key, mapping] : mappings_) mapping.due = mapping.due || key.first == before;
}

std::size_t DeviceMemoryOfPeers::mapped() const {
  const std::lock_guard lock(mutex_);
  return mappings_.size();
}

void DeviceMemoryOfPeers::close_due() {
  const std::lock_guard lock(mutex_);
  const auto close = [&](auto at) {
    device_.driver().ipc_close_mem_handle(at->second.at);
    return mappings_.erase(at);
  };
  for (auto at = mappings_.begin(); at != mappings_.end();) {
    at = at->second.due && at->second.users == 0 ? close(at) : std::next(at);
  }
  while (mappings_.size() > kMostMappings) {
    auto oldest = mappings_.end();
    for (auto at = mappings_.begin(); at != mappings_.end(); ++at) {
      const bool older = oldest == mappings_.end() || at->second.used < oldest->second.used;
      if (at->second.users == 0 && older) oldest = at;
    }
    if (oldest == mappings_.end()) return;
    close(oldest);
  }
}

}  // namespace holdfast::device
