// Shared-memory pipe: two rings in one segment of two processes of a host. Copies: one in by the
// sender, and one out by the receiver, which for a reduction is the reduction itself. The pipe
// cannot see the peer's death: the control connection beside it does.
#pragma once

#include <functional>
#include <memory>

#include "comm/transport/bell.h"
#include "comm/transport/link.h"
#include "comm/transport/ring.h"
#include "comm/transport/segment.h"

namespace holdfast::comm {

inline constexpr std::size_t kShmLinkBytes = 2 * kRingSegmentBytes;

// Makes a segment for a link. Its rings grow when they have much to carry and there is memory.
Result<Segment> create_shm_link();

class ShmLink final : public Link {
 public:
  // `segment`: from create_shm_link(), or the peer's, opened by name; the creator writes its first
  // half. `peer_bell` must outlive the link; `wake_by_socket` is called when the peer sleeps on its
  // sockets.
  ShmLink(Segment segment, bool creator, Bell peer_bell, std::function<void()> wake_by_socket);

  std::string_view transport() const override { return "shm"; }
  bool pump() override;

 protected:
  void release(const SendPost&) override {}  // frames are written whole

 private:
  bool push();
  bool pull();
  void ring_peer();
  bool grow();

  Segment segment_;
  std::size_t own_;  // offset of the ring that this side writes
  RingWriter writer_;
  RingReader reader_;
  Bell peer_bell_;
  std::function<void()> wake_by_socket_;
};

}  // namespace holdfast::comm
