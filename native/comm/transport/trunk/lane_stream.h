// Lane stream: the port of a trunk to the connections below it. Production has sockets there
// (lane_socket.h), and the simulator bytes in virtual time.
//
// Thread: only the holder of the runtime. No call blocks.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/net/tcp_path.h"

namespace holdfast::comm {

// Names a lane of a trunk; none is used twice.
using LaneId = std::uint64_t;
inline constexpr LaneId kNoLane = 0;

// The system's own congestion control, whichever that is, and one that does not take each lost
// packet for a queue that is full (Cardwell et al., BBR: Congestion-Based Congestion Control, ACM
// Queue 2016).
enum class LaneControl : std::uint8_t { kSystem, kBbr };
inline constexpr std::size_t kLaneControls = 2;

// One connection to the peer. It ends with its stream, so that the other side hears of it.
class LaneStream {
 public:
  virtual ~LaneStream() = default;
  // As the system's calls for a socket that does not block: a number of bytes, or -1 and errno.
  // receive() returns 0 where the other side has ended the connection, and EBADMSG for bytes that
  // are not what was sent.
  virtual ssize_t send(std::span<const iovec> parts) = 0;
  virtual ssize_t receive(std::span<const iovec> parts) = 0;
  // Whether a receive() that filled less than it was asked for may be followed by one that finds
  // more.
  virtual bool receives_in_parts() const { return false; }
  // Whether bytes that were taken have yet to go; and sends them: false and errno as send().
  virtual bool holds() const { return false; }
  virtual bool flush() { return true; }
  // Ends the connection as the network might.
  virtual void hang_up() = 0;
  // What is known of the path; false: nothing, and `path` stays as it is.
  virtual bool look(TcpPath& path) const = 0;
  // False: this process may not have it, or it has it already.
  virtual bool set_control(LaneControl control) = 0;
  // Bounds the bytes a second that it sends; 0: no bound.
  virtual void set_pace(std::uint64_t) {}
  // The one that it has, as Linux calls it; empty: not known.
  virtual std::string_view control_name() const { return {}; }
  // Whether it goes through a relay.
  virtual bool is_relayed() const { return false; }
};

// What has become of a lane since it was last asked for.
struct LaneNews {
  LaneId lane = kNoLane;
  bool readable = false;  // or broken
  bool writable = false;
};

// Watches the streams of one trunk.
class LaneWatch {
 public:
  virtual ~LaneWatch() = default;
  // For a poller of several trunks; negative: there is none.
  virtual int fd() const { return -1; }
  virtual void add(LaneId lane, const LaneStream& stream) = 0;
  virtual void remove(LaneId lane, const LaneStream& stream) = 0;
  // Replaces what is in `news`.
  virtual void poll(std::vector<LaneNews>& news) = 0;
};

}  // namespace holdfast::comm
