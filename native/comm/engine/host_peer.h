// What the ranks of one host share, beside their links: an area of memory per rank that its owner
// writes and everybody reads, and a bell to wake the owner.
#pragma once

#include <functional>
#include <memory>

#include "comm/transport/bell.h"
#include "comm/transport/segment.h"

namespace holdfast::comm {

struct HostPeer {
  // Owners: the exchanges of a group's successive views.
  std::shared_ptr<Segment> segment;  // of sizeof(HostArea)
  Bell bell;
  std::function<void()> wake_by_socket;

  void ring() {
    if (bell.ring() == Sleep::kOnSocket && wake_by_socket) wake_by_socket();
  }
};

}  // namespace holdfast::comm
