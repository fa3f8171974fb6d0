#include "sim/network.h"

#include <algorithm>

namespace holdfast::sim {
namespace {

using std::chrono::microseconds;

// Limit of frames under way in one direction: enough to stream, few enough that back-pressure
// occurs.
constexpr std::size_t kWindow = 16;

}  // namespace

bool SimLink::pump() {
  if (!status().is_ok()) return false;
  if (in_->closed_here) {
    fail({Code::kSystem, "closed by this side"});
    return false;
  }
  const bool out = push();
  return pull() || out;
}

bool SimLink::push() {
  bool moved = false;
  while (out_->packets.size() < kWindow || out_->dead) {
    // Frames have various sizes, so that a message may stop anywhere; an eager message is whole.
    const std::uint64_t most = comm::kEagerBytes << random_.below(3);
    comm::OutFrame frame;
    if (!session().wants_to_send() || !session().next_frame(most, frame)) break;
    moved = true;
    const int copies = out_->dead ? 0 : keeper_.copies(out_->from, out_->to, frame);
    for (int i = 0; i < copies; ++i) {
      Wire::Packet packet;
      packet.header = frame.header;
      packet.payload.assign(frame.payload.begin(), frame.payload.end());
      packet.at = std::max(out_->last, keeper_.arrival(out_->from, out_->to) +
                                           keeper_.lateness(out_->from, out_->to, frame));
      packet.damaged = keeper_.damages(out_->from, out_->to);
      out_->last = packet.at;
      keeper_.wake(out_->to, packet.at);
      out_->packets.push_back(std::move(packet));
    }
    session().sent(frame);
  }
  return moved;
}

bool SimLink::pull() {
  bool moved = false;
  while (status().is_ok() && !in_->packets.empty() && in_->packets.front().at <= keeper_.now()) {
    const Wire::Packet packet = std::move(in_->packets.front());
    in_->packets.pop_front();
    moved = true;
    if (!take(packet)) return true;
    // The sender may have waited for room.
    keeper_.wake(in_->from, keeper_.now());
  }
  const bool closing = in_->closes.since_origin != Duration::max();
  if (closing && in_->packets.empty() && in_->closes <= keeper_.now() && status().is_ok()) {
    closed_by_peer_ = in_->proves_death;
    fail({Code::kPeerLost, closed_by_peer_ ? "the peer's process ended" : "the connection broke"});
  }
  return moved;
}

bool SimLink::take(const Wire::Packet& packet) {
  received_ += comm::kFrameHeaderBytes + packet.payload.size();
  if (packet.damaged) {
    in_->failed = true;
    fail({Code::kProtocolError, "a damaged frame"});
    return false;
  }
  Status status = session().begin_frame(packet.header);
  std::span<const std::byte> rest = packet.payload;
  while (status.is_ok() && !rest.empty()) {
    // Bytes come in pieces of whole elements.
    const std::uint64_t unit = session().unit();
    std::size_t piece = rest.size();
    if (random_.chance(25)) {
      piece = std::max<std::size_t>(unit, random_.below(piece + 1) / unit * unit);
    }
    rest = rest.subspan(session().payload(rest.first(std::min(piece, rest.size()))));
  }
  if (status.is_ok()) return true;
  in_->failed = true;
  fail(std::move(status));
  return false;
}

void close_wire(Wire& wire, WireKeeper& keeper, bool proves_death) {
  if (wire.dead) return;
  Random& random = keeper.random();
  const std::size_t kept = random.below(wire.packets.size() + 1);
  wire.packets.resize(kept);
  wire.dead = true;
  wire.proves_death = proves_death;
  const Instant last = kept == 0 ? keeper.now() : wire.packets.back().at;
  wire.closes =
      std::max(last, keeper.arrival(wire.from, wire.to)) + microseconds(random.below(200));
  keeper.wake(wire.to, wire.closes);
}

}  // namespace holdfast::sim
