// The key of one direction of an open TLS 1.3 session: made of its traffic secret, followed by the
// next when that has done enough (RFC 8446, 7.2 and 7.3), and used for one record at a time (5.2
// and 5.3). It knows nothing of what records are for. For `secure`.
// Why: docs/decisions/0166-open-sessions-have-records-of-our-own.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "secure/openssl.h"

namespace holdfast::secure {

// Of a record on the wire: type, version and length before, the tag of AEAD behind.
inline constexpr std::size_t kRecordHeaderBytes = 5;
inline constexpr std::size_t kRecordTagBytes = 16;

// As long as a suite's hash; it wipes itself, and moves.
class TrafficSecret {
 public:
  // The longest is of SHA-384.
  static constexpr std::size_t kMost = 48;

  TrafficSecret() = default;
  ~TrafficSecret();
  TrafficSecret(TrafficSecret&& other) noexcept;
  TrafficSecret& operator=(TrafficSecret&& other) noexcept;
  TrafficSecret(const TrafficSecret&) = delete;
  TrafficSecret& operator=(const TrafficSecret&) = delete;

  // Hexadecimal; empty if that is no secret's.
  static TrafficSecret of_text(std::string_view text);

  std::span<const std::byte> bytes() const { return std::span(bytes_).first(size_); }
  // To be filled.
  std::span<std::byte> resized(std::size_t size);

 private:
  std::array<std::byte, kMost> bytes_{};
  std::size_t size_ = 0;
};

// What a suite of TLS 1.3 is made of.
struct TrafficSuite {
  std::uint16_t number;  // RFC 8446, B.4
  const char* hash;
  std::size_t hash_bytes;
  std::size_t key_bytes;
  const evp_cipher_st* (*cipher)();
};
// Null if this build does not offer it.
const TrafficSuite* traffic_suite(std::uint16_t number);

// One thread at a time.
class TrafficKey {
 public:
  enum class KeyUse : int { kOpen = 0, kSeal = 1 };

  // Fails if the secret is not as long as the suite's hash.
  static Result<TrafficKey> make(const TrafficSuite& suite, TrafficSecret secret, KeyUse use);

  // The next key takes this one's place, whose secret is wiped.
  Status advance();
  // That this key has sealed or opened.
  std::uint64_t records() const { return records_; }

  // Encrypts `text` and the byte behind it to `to`, then the tag; `to` has just room for them.
  bool seal(std::span<const std::byte> header, std::span<const std::byte> text, std::byte last,
            std::span<std::byte> to);
  // Decrypts what seal() made of as many bytes as `to` has. False: it is not what was sealed, and
  // nothing of it is left in `to`.
  bool open(std::span<const std::byte> header, std::span<const std::byte> sealed,
            std::span<std::byte> to, std::byte& last);

 private:
  static constexpr std::size_t kNonceBytes = 12;

  TrafficKey(const TrafficSuite& suite, TrafficSecret secret, KeyUse use)
      : suite_(&suite), secret_(std::move(secret)), use_(use) {}
  Status set_up();
  bool begin_record(std::span<const std::byte> header);
  bool update(std::span<const std::byte> from, std::byte* to);

  const TrafficSuite* suite_;
  TrafficSecret secret_;
  KeyUse use_;
  Owned<evp_cipher_ctx_st> work_{};
  std::array<std::byte, kNonceBytes> salt_{};
  std::uint64_t records_ = 0;
};

}  // namespace holdfast::secure
