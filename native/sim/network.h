// Network: the wires of a simulated world. Every directed pair of processes has its wires; frames
// arrive in order after a random delay, later while faults hold them up, or never. Single thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "comm/transport/link.h"
#include "sim/random.h"

namespace holdfast::sim {

// What the wires need from the simulation around them.
class WireKeeper {
 public:
  virtual ~WireKeeper() = default;
  virtual Instant now() const = 0;
  // When a frame that process `from` sends now gets to `to`.
  virtual Instant arrival(int from, int to) = 0;
  // Whether the next frame on this way is to be damaged.
  virtual bool damages(int from, int to) = 0;
  // How many times a frame arrives: usually once.
  virtual int copies(int from, int to, const comm::OutFrame& frame) = 0;
  // How much longer than others this frame takes.
  virtual Duration lateness(int from, int to, const comm::OutFrame& frame) = 0;
  // Has the process look at its links at that time.
  virtual void wake(int process, Instant at) = 0;
  virtual Random& random() = 0;
};

// One direction of one connection.
struct Wire {
  struct Packet {
    Instant at;
    comm::FrameHeader header;
    std::vector<std::byte> payload;
    bool damaged = false;
  };
  int from = 0;
  int to = 0;
  std::deque<Packet> packets;
  Instant last{};  // arrival of the last packet
  Instant closes{Duration::max()};
  bool proves_death = false;  // whether its closing proves the sender's death
  bool dead = false;          // takes no frames any more
  bool failed = false;        // the receiver has given up the wire
  bool closed_here = false;   // closed by the receiver's runtime, for a reason of its own
};

class SimLink final : public comm::Link {
 public:
  // Owners of the wires: both ends.
  SimLink(WireKeeper& keeper, std::shared_ptr<Wire> out, std::shared_ptr<Wire> in)
      : keeper_(keeper), random_(keeper.random()), out_(std::move(out)), in_(std::move(in)) {}

  std::string_view transport() const override { return "sim"; }
  bool pump() override;
  bool closed_by_peer() const override { return closed_by_peer_; }
  std::uint64_t received() const override { return received_; }

 protected:
  void release(const comm::SendPost&) override {}

 private:
  bool push();
  bool pull();
  bool take(const Wire::Packet& packet);

  WireKeeper& keeper_;
  Random& random_;
  std::shared_ptr<Wire> out_;
  std::shared_ptr<Wire> in_;
  bool closed_by_peer_ = false;
  std::uint64_t received_ = 0;
};

// The sender's process has ended: frames that its kernel had not delivered may be lost.
void close_wire(Wire& wire, WireKeeper& keeper, bool proves_death);

}  // namespace holdfast::sim
