// Waiting room: which callers may wait while nothing is known of them but their address, and which
// of them gives way to the next. Pure bookkeeping: no sockets, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace holdfast::runtime {

class WaitingRoom {
 public:
  // Who comes later has the higher ticket.
  using Ticket = std::uint64_t;
  struct Seats {
    std::size_t all = 512;
    // Of one address: its callers give way to each other before those of others do.
    std::size_t per_address = 128;
  };

  explicit WaitingRoom(Seats seats) : seats_(seats) {}

  struct Arrival {
    Ticket ticket = 0;
    std::optional<Ticket> gives_way;  // has left the room for it
  };
  Arrival enter(const std::string& address);
  void leave(Ticket ticket);
  std::size_t size() const { return waiting_.size(); }

 private:
  Seats seats_;
  Ticket last_ = 0;
  std::map<Ticket, std::string> waiting_;
  std::map<std::string, std::set<Ticket>> by_address_;
};

}  // namespace holdfast::runtime
