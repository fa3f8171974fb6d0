// Copies between messages and the memory of their callers, packed or not.
#include <algorithm>
#include <array>

#include "base/copy.h"
#include "comm/message/mail_peer.h"

namespace holdfast::comm {
namespace {

// What is read for a room that is not memory goes through a buffer that stays in the first levels
// of the cache.
constexpr std::size_t kBounceBytes = 32 * 1024;

}  // namespace

void place_mail(const MailRoom& room, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (room.sink != nullptr) {
    room.sink->write(offset, bytes);
  } else {
    copy_bytes(room.data + offset, bytes.data(), bytes.size());
  }
}

std::uint64_t pull_mail(const ProcessMemory& memory, std::uint64_t address, std::uint64_t offset,
                        std::uint64_t bytes, const MailRoom& room) {
  if (room.sink == nullptr) {
    return memory.read(room.data + offset, address + offset, bytes) ? bytes : 0;
  }
  std::array<std::byte, kBounceBytes> bounce;
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::uint64_t part = std::min<std::uint64_t>(bytes - done, bounce.size());
    if (!memory.read(bounce.data(), address + offset + done, part)) break;
    room.sink->write(offset + done, std::span(bounce).first(part));
    done += part;
  }
  return done;
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
