#include "runtime/relay/relay_notes.h"

#include <algorithm>

#include "base/bytes.h"

namespace holdfast::runtime {

Result<std::vector<RelayNotes::TicketNote>> RelayNotes::hear(std::span<const std::byte> bytes) {
  std::vector<TicketNote> notes;
  in_.insert(in_.end(), bytes.begin(), bytes.end());
  std::size_t read = 0;
  while (read < in_.size()) {
    if (in_[read] == kRelayLives) {
      ++read;
      continue;
    }
    if (in_[read] != kRelayTicket) {
      return Status{Code::kProtocolError, "the relay says what is not known here"};
    }
    if (in_.size() - read < kTicketNoteBytes) break;
    Reader r(std::span<const std::byte>(in_).subspan(read + 1, kTicketNoteBytes - 1));
    TicketNote note{{r.number<std::uint64_t>()}, {}};
    std::ranges::copy(r.rest(), note.ticket.begin());
    notes.push_back(note);
    read += kTicketNoteBytes;
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(read));
  return notes;
}

}  // namespace holdfast::runtime
