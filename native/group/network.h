// Network: what a world needs of its process: connections to its members, memory for areas, and
// receivers of its news. Implemented by the runtime, through the router, and by the simulator.
//
// Thread: only the holder of the runtime.
#pragma once

#include <optional>
#include <string>

#include "comm/engine/host_peer.h"
#include "comm/observer.h"
#include "comm/view/communicator_config.h"
#include "ft/contact.h"
#include "ft/message.h"
#include "group/sharing.h"

namespace holdfast::group {

// How a connection ended.
struct Loss {
  Status why;
  bool gone = false;  // the process has ended, and not only the connection
  bool left = false;  // it said goodbye first
};

class Network {
 public:
  virtual ~Network() = default;
  virtual void send(MemberId to, const ft::Message& message) = 0;
  // Empty while there is no connection.
  virtual comm::MemberLinks links_to(MemberId member) = 0;
  // How the last connection to the member ended; nothing: the connection stands, or there was none.
  virtual const Loss* loss_of(MemberId member) const = 0;
  virtual ft::Contact contact_of(MemberId member, Instant now) const = 0;
  // A member of a world has no connection: make one, or find out that its process has gone. Once
  // asked for, it is tried until the member is no member any more.
  virtual void look_after(MemberId member, const std::string& card, Instant now) = 0;
  // Equal for two cards exactly when their processes are on one host.
  virtual std::string host_of(const std::string& card) const = 0;
  // The domains around the card's host, from the outside in, with '/' between; empty: not known.
  virtual std::string domain_of(const std::string&) const { return {}; }
  // Connections to this process will be wanted.
  virtual void expect(const ft::Joiner& joiner) = 0;
  // Prints a line for people: views that change, and why.
  virtual void say(const std::string& text) = 0;
  // Equal and not empty for two cards exactly when their processes may share memory.
  virtual std::string memory_of(const std::string& card) const = 0;
  // Makes an area of this process for a group, to be found by the other members.
  virtual Result<OwnArea> make_area() = 0;
  // Opens the member's area of that name; nothing: it cannot be mapped. The member sent the name,
  // and it may be wrong.
  virtual std::optional<comm::HostPeer> open_area(MemberId member, const std::string& name) = 0;
  // Sends to a member's part in a group.
  virtual void send(MemberId to, CommId group, Epoch epoch, comm::FrameKind kind,
                    const ft::Bytes& payload) = 0;
  // This process has left the group: a peer that asks it about the group later is told so.
  virtual void note_ended(CommId) {}
  // Observer of all that happens here; nullptr: none. Outlives the worlds.
  virtual comm::Observer* observer() { return nullptr; }
};

}  // namespace holdfast::group
