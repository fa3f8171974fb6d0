// Host peer: what the ranks of one host share beside their links: an area of memory per rank, which
// its owner writes and all ranks of the host read, and a bell to wake the owner.
#pragma once

#include <functional>
#include <memory>

#include "comm/engine/area_room.h"
#include "comm/transport/bell.h"
#include "comm/transport/pool.h"
#include "comm/transport/process_memory.h"
#include "comm/transport/segment.h"

namespace holdfast::comm {

struct HostPeer {
  // Has a HostArea at `offset`. Owners: the exchanges of a group's successive views, and of groups
  // that were derived from it.
  std::shared_ptr<Segment> segment;
  Bell bell;
  std::function<void()> wake_by_socket;
  // Owners: as of segment. Null where the peer's memory cannot be read; then no rank of the group
  // reads any other's.
  std::shared_ptr<ProcessMemory> memory = nullptr;
  // Owners: as of segment. Null where nothing is to be mapped; own_pool is set in this rank's own
  // entry only.
  std::shared_ptr<PeerPool> pool = nullptr;
  std::shared_ptr<OwnPool> own_pool = nullptr;
  // Leases areas of the segment to groups that are derived from this one. Owners: as of segment.
  // Null in others' entries, and where there is no room.
  std::shared_ptr<AreaRoom> room = nullptr;
  std::size_t offset = 0;

  std::byte* area() const { return segment->data() + offset; }
  void ring() {
    if (bell.ring() == Sleep::kOnSocket && wake_by_socket) wake_by_socket();
  }
  // For callers that have put a full fence behind what they published.
  void ring_published() {
    if (bell.ring_published() == Sleep::kOnSocket && wake_by_socket) wake_by_socket();
  }
};

}  // namespace holdfast::comm
