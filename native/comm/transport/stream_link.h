// Stream link: a peer's control channel, which carries its membership messages and signs of life,
// and its data where nothing beside it does. It stands on a connection whose two sides have greeted
// each other, and goes on over another one when that breaks.
//
// Thread: only the holder of the runtime.
#pragma once

#include "comm/transport/link.h"

namespace holdfast::comm {

class StreamLink : public Link {
 public:
  // What a poller watches, edge-triggered, for reading and writing; negative: severed. Of several
  // connections: a descriptor of an epoll that has them.
  virtual int fd() const = 0;
  // Ends the connection, so that the peer's kernel hears of it; the link may be renewed.
  virtual void sever(Status why) = 0;
  // Goes on over another connection to the same peer, which does so as well.
  virtual void renew(int fd) = 0;
  // Ends the connection as the network might: whoever watches it hears of it.
  virtual void hang_up() = 0;

  // The poller saw it readable or broken.
  virtual void set_readable() = 0;
  virtual void set_writable() = 0;
  // Whether something is asked for that has not come.
  virtual bool awaits() const = 0;
  virtual bool wants_to_write() = 0;
  // Asks whoever measures the path for round-trip time and retransmits, and writes them to the
  // meter.
  virtual void look_at_path() = 0;

  // Of a peer that sleeps on its sockets.
  void wake_peer() {
    session().send_control(FrameKind::kWake, {}, {}, {});
    pump();
  }
};

}  // namespace holdfast::comm
