// Copies between messages and the memory of their callers, packed or not.
#include "base/copy.h"
#include "comm/message/mail_peer.h"

namespace holdfast::comm {

void place_mail(const MailRoom& room, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (room.sink != nullptr) {
    room.sink->write(offset, bytes);
  } else {
    copy_bytes(room.data + offset, bytes.data(), bytes.size());
  }
}

void read_mail(const MailPayload& payload, std::uint64_t offset, std::span<std::byte> to) {
  if (to.empty()) return;
  if (payload.source != nullptr) {
    payload.source->read(offset, to);
  } else {
    copy_bytes(to.data(), payload.data + offset, to.size());
  }
}

}  // namespace holdfast::comm
