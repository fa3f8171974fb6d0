// Records of an open TLS 1.3 session (RFC 8446, 5): bytes in and bytes out, one writer and one
// reader to a session. What is written is encrypted from where it lies to where it is sent from,
// and what is read from where it was received to where it is wanted. For `secure`.
// Why: docs/decisions/0166-open-sessions-have-records-of-our-own.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/result.h"
#include "secure/byte_queue.h"
#include "secure/records/traffic_key.h"

namespace holdfast::secure {

// The most bytes that one record protects (RFC 8446, 5.1).
inline constexpr std::size_t kMaxRecordBytes = 16 << 10;

enum class RecordKind : std::uint8_t { kAlert = 21, kHandshake = 22, kData = 23 };

// Descriptions of alerts (RFC 8446, 6).
enum class TlsAlert : std::uint8_t {
  kCloseNotify = 0,
  kUnexpectedMessage = 10,
  kBadRecordMac = 20,
  kRecordOverflow = 22,
  kIllegalParameter = 47,
  kDecodeError = 50,
  kInternalError = 80,
  kUserCanceled = 90,
};

// What is wrong with what came: as the other side is told, and for people.
struct RecordFault {
  TlsAlert alert = TlsAlert::kInternalError;
  const char* why = "";
};

// One thread at a time.
class RecordWriter {
 public:
  // After `records_per_key` records the next key takes its turn.
  RecordWriter(TrafficKey key, std::uint64_t records_per_key)
      : key_(std::move(key)), records_per_key_(records_per_key) {}

  // Appends records that protect `bytes`.
  Status write(RecordKind kind, std::span<const std::byte> bytes, ByteQueue& to);
  // Appends the word that the next key follows, which it does.
  Status change_key(ByteQueue& to);

 private:
  Status write_one(RecordKind kind, std::span<const std::byte> bytes, ByteQueue& to);

  TrafficKey key_;
  std::uint64_t records_per_key_;
};

// One thread at a time.
class RecordReader {
 public:
  explicit RecordReader(TrafficKey key) : key_(std::move(key)) {}

  enum class RecordFound : std::uint8_t { kNothing, kRecord, kFault };

  // Takes bytes until a record is whole, cut anywhere. kNothing: all are taken.
  RecordFound find(std::span<const std::byte>& bytes);
  // The most bytes that the record which was found protects.
  std::size_t most() const;
  // Decrypts that record to the front of `to`, which has room for most() bytes, and returns how
  // many it protects and what they are. kFault: nothing of it is there. Before the next find().
  RecordFound open(std::span<std::byte> to, RecordKind& kind, std::size_t& size);
  const RecordFault& fault() const { return fault_; }

  // The next records have the next key.
  Status change_key() { return key_.advance(); }

 private:
  RecordFound fail(TlsAlert alert, const char* why);
  bool hold(std::span<const std::byte>& bytes, std::size_t until);

  TrafficKey key_;
  std::span<const std::byte> record_{};  // that was found
  std::unique_ptr<std::byte[]> held_{};  // a record's first bytes, until the others come
  std::size_t held_size_ = 0;
  RecordFault fault_{};
};

// What may still come of the handshake's kind (RFC 8446, 4.6): changes of the key, and a server's
// tickets, which nobody uses. Messages may be cut anywhere between records.
class LateHandshake {
 public:
  explicit LateHandshake(bool takes_tickets) : takes_tickets_(takes_tickets) {}

  enum class LateWord : std::uint8_t { kNothing, kKey, kKeyAndAsks, kFault };
  // Takes what one record protects. kKey: the other side's next key follows; kKeyAndAsks: and this
  // side's is to follow as well.
  LateWord hear(std::span<const std::byte> bytes);
  // Whether a message has begun, between whose records no others may be.
  bool midway() const { return have_ > 0 || ignored_ > 0; }
  const RecordFault& fault() const { return fault_; }

 private:
  LateWord fail(TlsAlert alert, const char* why);

  bool takes_tickets_;
  std::array<std::byte, 5> start_{};  // the longest message that counts
  std::size_t have_ = 0;
  std::size_t ignored_ = 0;  // that are yet to come
  RecordFault fault_{};
};

}  // namespace holdfast::secure
