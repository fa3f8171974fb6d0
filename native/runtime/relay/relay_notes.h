// Relay notes: what a relay says to a registered member, as it comes. Bytes in, tickets out.
#pragma once

#include <span>
#include <vector>

#include "runtime/relay/preface.h"

namespace holdfast::runtime {

class RelayNotes {
 public:
  struct TicketNote {
    MemberId caller;
    RelayTicket ticket{};
  };
  // kProtocolError: a note of another kind. Keeps less than one note.
  Result<std::vector<TicketNote>> hear(std::span<const std::byte> bytes);

 private:
  std::vector<std::byte> in_;
};

}  // namespace holdfast::runtime
