#include "comm/transport/shm.h"

#include <algorithm>
#include <utility>

namespace holdfast::comm {
namespace {

// Frames handled in one direction before the other links get their turn.
constexpr int kShmFramesPerTurn = 16;

}  // namespace

Result<Segment> create_shm_link() {
  constexpr std::size_t kFirst = kRingDataAt + kRingFirstBytes;
  constexpr Segment::SegmentPart kParts[] = {{0, kFirst}, {kRingSegmentBytes, kFirst}};
  return Segment::create_growing("link", kShmLinkBytes, kParts);
}

ShmLink::ShmLink(Segment segment, bool creator, Bell peer_bell,
                 std::function<void()> wake_by_socket)
    : segment_(std::move(segment)),
      own_(creator ? 0 : kRingSegmentBytes),
      writer_(segment_.data() + own_, kRingFirstBytes),
      reader_(segment_.data() + (creator ? kRingSegmentBytes : 0)),
      peer_bell_(peer_bell),
      wake_by_socket_(std::move(wake_by_socket)) {}

bool ShmLink::pump() {
  if (!status().is_ok()) return false;
  const bool sent = push();
  const bool received = pull();
  return sent || received;
}

bool ShmLink::push() {
  bool moved = false;
  OutFrame frame;
  for (int i = 0; i < kShmFramesPerTurn && session().wants_to_send(); ++i) {
    if (!writer_.has_room(writer_.most_payload()) && !grow()) break;
    if (!session().next_frame(writer_.most_payload(), frame)) break;
    CHECK(writer_.write(frame.header, frame.payload));
    count_sent(kFrameHeaderBytes + frame.payload.size());
    // A full frame was probably cut off a larger message, so there is more to send.
    if (frame.payload.size() == writer_.most_payload()) grow();
    session().sent(frame);
    frame = {};
    moved = true;
    ring_peer();
  }
  return moved;
}

// Tries to make the ring larger; true if it has room then.
bool ShmLink::grow() {
  const std::size_t ready = writer_.ready();
  if (ready == kRingBytes) return false;
  const std::size_t more = std::min(ready, kRingBytes - ready);
  const bool grown = segment_.grow({own_ + kRingDataAt + ready, more});
  if (grown) writer_.set_ready(ready + more);
  if (!grown || writer_.ready() == kRingBytes) segment_.stop_growing();
  return grown && writer_.has_room(writer_.most_payload());
}

bool ShmLink::pull() {
  bool moved = false;
  for (int i = 0; i < kShmFramesPerTurn; ++i) {
    auto peeked = reader_.peek();
    if (!peeked.is_ok()) {
      fail(peeked.status());
      return true;
    }
    if (!peeked.value()) break;
    const RingFrame& frame = *peeked.value();
    moved = true;
    if (Status status = session().begin_frame(frame.header); !status.is_ok()) {
      fail(std::move(status));
      return true;
    }
    count_received(kFrameHeaderBytes + frame.payload.size());
    std::span<const std::byte> rest = frame.payload;
    while (!rest.empty()) rest = rest.subspan(session().payload(rest));
    reader_.consume(frame);
  }
  if (moved && reader_.producer_waits()) ring_peer();
  return moved;
}

void ShmLink::ring_peer() {
  if (peer_bell_.ring() == Sleep::kOnSocket && wake_by_socket_) wake_by_socket_();
}

}  // namespace holdfast::comm
