// Stream link: a peer's control channel. It carries membership messages and heartbeats, and data
// where no data path does. It uses a connection whose two sides have greeted each other, and goes
// on over another one when that breaks.
//
// Thread: only the holder of the runtime.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>

#include "comm/transport/link.h"

namespace holdfast::comm {

// Encrypts and authenticates what goes over one connection. Its calls are as those of the system
// for a socket that does not block: a number of bytes, or -1 and errno. They never block.
//
// Thread: one at a time.
class Seal {
 public:
  virtual ~Seal() = default;
  // Takes bytes of the parts in order; their memory is free again then. EAGAIN: bytes that were
  // taken before have not gone yet.
  virtual ssize_t send(int fd, std::span<const iovec> parts) = 0;
  // Whether bytes that were taken have yet to go; and sends them: false and errno as send().
  virtual bool holds() const = 0;
  virtual bool flush(int fd) = 0;
  // Fills the parts in order. EAGAIN: the socket is empty, too; any other number says nothing of
  // that. 0: the other side has ended the connection. EBADMSG: the bytes are not what was sent.
  virtual ssize_t receive(int fd, std::span<const iovec> parts) = 0;
  // Bytes that receive() would return without looking at the socket.
  virtual std::size_t arrived() const = 0;
};

struct Connection {
  int fd = -1;
  std::unique_ptr<Seal> seal = nullptr;  // null: the bytes go as they are
  bool relayed = false;                  // it goes through a relay
};

class TrunkLink;

class StreamLink : public Link {
 public:
  ~StreamLink() override { leave_meter(); }
  // The descriptor that a poller watches, edge-triggered, for reading and writing; negative: the
  // link is severed. A link of several connections returns an epoll descriptor that has them all.
  virtual int fd() const = 0;
  // Ends the connection, so that the peer's kernel hears of it; the link may be renewed.
  virtual void sever(Status why) = 0;
  // Goes on over another connection to the same peer; the peer does so as well.
  virtual void renew(Connection connection) = 0;
  // Ends the connection as the network might: pollers on both sides notice it.
  virtual void hang_up() = 0;

  // Called when the poller saw the connection readable (or broken), and writable.
  virtual void set_readable() = 0;
  virtual void set_writable() = 0;
  // Whether a receive is posted for something that has not come.
  virtual bool awaits() const = 0;
  virtual bool wants_to_write() = 0;
  // Reads round-trip time and retransmits from the network stack, and writes them to the meter.
  virtual void look_at_path() = 0;
  // The link as a trunk; null: it is one connection.
  virtual TrunkLink* trunk() { return nullptr; }

  // Wakes a peer that sleeps on its sockets.
  void wake_peer() {
    session().send_control(FrameKind::kWake, {}, {}, {});
    pump();
  }
};

}  // namespace holdfast::comm
