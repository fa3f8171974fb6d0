#include "runtime/rendezvous/waiting_room.h"

namespace holdfast::runtime {

WaitingRoom::Arrival WaitingRoom::enter(const std::string& address) {
  Arrival entry;
  const auto own = by_address_.find(address);
  if (own != by_address_.end() && own->second.size() >= seats_.per_address) {
    entry.gives_way = *own->second.begin();
  } else if (waiting_.size() >= seats_.all) {
    entry.gives_way = waiting_.begin()->first;
  }
  if (entry.gives_way) leave(*entry.gives_way);
  entry.ticket = ++last_;
  waiting_.emplace(entry.ticket, address);
  by_address_[address].insert(entry.ticket);
  return entry;
}

void WaitingRoom::leave(Ticket ticket) {
  const auto at = waiting_.find(ticket);
  if (at == waiting_.end()) return;
  const auto own = by_address_.find(at->second);
  own->second.erase(ticket);
  if (own->second.empty()) by_address_.erase(own);
  waiting_.erase(at);
}

}  // namespace holdfast::runtime
