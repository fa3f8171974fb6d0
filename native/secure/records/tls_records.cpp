#include "secure/records/tls_records.h"

#include <algorithm>
#include <cstring>

namespace holdfast::secure {
namespace {

constexpr std::size_t kMostSealed = kMaxRecordBytes + 256;  // RFC 8446, 5.2
// The kind of what is protected has a byte of its own behind it.
constexpr std::size_t kLeastSealed = 1 + kRecordTagBytes;
constexpr std::size_t kMessageHeaderBytes = 4;  // of the handshake: its kind and length
constexpr auto kNewSessionTicket = std::byte{4};
constexpr auto kKeyUpdate = std::byte{24};

std::size_t length_of(std::span<const std::byte> header) {
  return std::to_integer<std::size_t>(header[3]) << 8 | std::to_integer<std::size_t>(header[4]);
}

// A key gives way: the message that says so, and asks for nothing in return.
constexpr std::array kKeyUpdateMessage{kKeyUpdate, std::byte{0}, std::byte{0}, std::byte{1},
                                       std::byte{0}};

}  // namespace

// ---- RecordWriter

Status RecordWriter::write(RecordKind kind, std::span<const std::byte> bytes, ByteQueue& to) {
  const std::size_t records = bytes.size() / kMaxRecordBytes + 2;  // one for a change of the key
  to.room(bytes.size() + records * (kRecordHeaderBytes + kLeastSealed));
  while (!bytes.empty()) {
    if (key_.records() + 1 >= records_per_key_) TRY(change_key(to));
    const auto next = bytes.first(std::min(bytes.size(), kMaxRecordBytes));
    TRY(write_one(kind, next, to));
    bytes = bytes.subspan(next.size());
  }
  return Status::ok();
}

Status RecordWriter::change_key(ByteQueue& to) {
  TRY(write_one(RecordKind::kHandshake, kKeyUpdateMessage, to));
  return key_.advance();
}

Status RecordWriter::write_one(RecordKind kind, std::span<const std::byte> bytes, ByteQueue& to) {
  const std::size_t sealed = bytes.size() + kLeastSealed;
  const auto room = to.room(kRecordHeaderBytes + sealed);
  const auto header = room.first(kRecordHeaderBytes);
  header[0] = static_cast<std::byte>(RecordKind::kData);
  header[1] = header[2] = std::byte{3};
  header[3] = static_cast<std::byte>(sealed >> 8);
  header[4] = static_cast<std::byte>(sealed);
  if (!key_.seal(header, bytes, static_cast<std::byte>(kind),
                 room.subspan(kRecordHeaderBytes, sealed))) {
    return {Code::kSystem, "OpenSSL encrypts no record"};
  }
  to.added(kRecordHeaderBytes + sealed);
  return Status::ok();
}

// ---- RecordReader

RecordReader::RecordFound RecordReader::fail(TlsAlert alert, const char* why) {
  fault_ = {alert, why};
  return RecordFound::kFault;
}

// Whether that many bytes are held now.
bool RecordReader::hold(std::span<const std::byte>& bytes, std::size_t until) {
  const std::size_t count = std::min(until - std::min(until, held_size_), bytes.size());
  if (count > 0) {
    if (held_ == nullptr) {
      held_ = std::make_unique_for_overwrite<std::byte[]>(kRecordHeaderBytes + kMostSealed);
    }
    std::memcpy(held_.get() + held_size_, bytes.data(), count);
    held_size_ += count;
    bytes = bytes.subspan(count);
  }
  return held_size_ >= until;
}

RecordReader::RecordFound RecordReader::find(std::span<const std::byte>& bytes) {
  const bool is_held = held_size_ > 0 || bytes.size() < kRecordHeaderBytes;
  if (is_held && !hold(bytes, kRecordHeaderBytes)) return RecordFound::kNothing;
  const std::span header(is_held ? held_.get() : bytes.data(), kRecordHeaderBytes);
  if (header[0] != static_cast<std::byte>(RecordKind::kData)) {
    return fail(TlsAlert::kUnexpectedMessage, "bad record type");
  }
  const std::size_t sealed = length_of(header);
  if (sealed > kMostSealed) return fail(TlsAlert::kRecordOverflow, "encrypted length too long");
  if (sealed < kLeastSealed) return fail(TlsAlert::kDecodeError, "length too short");
  const std::size_t whole = kRecordHeaderBytes + sealed;
  if (!is_held && bytes.size() >= whole) {
    record_ = bytes.first(whole);
    bytes = bytes.subspan(whole);
    return RecordFound::kRecord;
  }
  if (!hold(bytes, whole)) return RecordFound::kNothing;
  record_ = {held_.get(), whole};
  return RecordFound::kRecord;
}

std::size_t RecordReader::most() const {
  return record_.size() - kRecordHeaderBytes - kLeastSealed;
}

RecordReader::RecordFound RecordReader::open(std::span<std::byte> to, RecordKind& kind,
                                             std::size_t& size) {
  const std::size_t longest = most();
  if (longest > kMaxRecordBytes) return fail(TlsAlert::kRecordOverflow, "data length too long");
  to = to.first(longest);
  std::byte last{};
  const bool is_sound =
      key_.open(record_.first(kRecordHeaderBytes), record_.subspan(kRecordHeaderBytes), to, last);
  record_ = {};
  if (held_size_ > 0) {
    // Most records come whole: a session that rests needs no memory.
    held_.reset();
    held_size_ = 0;
  }
  if (!is_sound) return fail(TlsAlert::kBadRecordMac, "decryption failed or bad record mac");
  // Zeros behind the kind are padding.
  size = longest;
  while (last == std::byte{0} && size > 0) last = to[--size];
  kind = static_cast<RecordKind>(last);
  switch (kind) {
    case RecordKind::kAlert:
    case RecordKind::kHandshake:
    case RecordKind::kData: return RecordFound::kRecord;
  }
  return fail(TlsAlert::kUnexpectedMessage, "bad record type");
}

// ---- LateHandshake

LateHandshake::LateWord LateHandshake::fail(TlsAlert alert, const char* why) {
  fault_ = {alert, why};
  return LateWord::kFault;
}

LateHandshake::LateWord LateHandshake::hear(std::span<const std::byte> bytes) {
  if (bytes.empty()) return fail(TlsAlert::kUnexpectedMessage, "empty handshake message");
  while (!bytes.empty()) {
    const std::size_t ignored = std::min(ignored_, bytes.size());
    ignored_ -= ignored;
    bytes = bytes.subspan(ignored);
    if (bytes.empty()) break;
    start_[have_++] = bytes.front();
    bytes = bytes.subspan(1);
    if (have_ < kMessageHeaderBytes) continue;
    const auto number = [this](std::size_t i) { return std::to_integer<std::size_t>(start_[i]); };
    const std::size_t length = number(1) << 16 | number(2) << 8 | number(3);
    if (start_[0] == kNewSessionTicket && takes_tickets_) {
      ignored_ = length;
      have_ = 0;
      continue;
    }
    if (start_[0] != kKeyUpdate) return fail(TlsAlert::kUnexpectedMessage, "unexpected message");
    if (length != 1) return fail(TlsAlert::kDecodeError, "bad key update");
    if (have_ < start_.size()) continue;
    have_ = 0;
    // What would follow has another key, and so another record.
    if (!bytes.empty()) return fail(TlsAlert::kUnexpectedMessage, "not on record boundary");
    if (number(4) > 1) return fail(TlsAlert::kIllegalParameter, "bad key update");
    return number(4) == 1 ? LateWord::kKeyAndAsks : LateWord::kKey;
  }
  return LateWord::kNothing;
}

}  // namespace holdfast::secure
