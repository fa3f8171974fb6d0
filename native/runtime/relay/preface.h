// Preface: what a caller and a relay say before the relay passes bytes on. The caller names the
// protocol, the relay answers with a challenge, and the caller says what it wants and proves that
// it has the run's secret or one of its tokens: the key itself is never sent. What follows is not
// the relay's to read. All of it comes from outside: parsing is total, and sizes are limited before
// anything is kept.
// Why: docs/decisions/0169-who-cannot-be-called-calls.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/net/socket.h"
#include "base/result.h"
#include "base/types.h"
#include "secure/token.h"

namespace holdfast::runtime {

using RelayMagic = std::array<std::byte, 8>;
// No frame, record of TLS or text begins so; servers that read lines answer to it, and are known by
// that. The 1 is the version.
inline constexpr RelayMagic kRelayMagic = {std::byte{0xf1}, std::byte{'H'}, std::byte{'F'},
                                           std::byte{'r'},  std::byte{1},   std::byte{'\r'},
                                           std::byte{'\n'}, std::byte{'\n'}};
// What a relay says to a process that has asked whether it can be called, before the nonce.
inline constexpr RelayMagic kKnockMagic = {std::byte{0xf1}, std::byte{'H'}, std::byte{'F'},
                                           std::byte{'k'},  std::byte{1},   std::byte{'\r'},
                                           std::byte{'\n'}, std::byte{'\n'}};

using RelayChallenge = std::array<std::byte, 32>;
// Names a call that waits, or an answer that is awaited. Random.
using RelayTicket = std::array<std::byte, 16>;

inline constexpr std::size_t kKnockBytes = kKnockMagic.size() + sizeof(RelayTicket);
inline constexpr std::size_t kRelayGreetingBytes = kRelayMagic.size() + sizeof(RelayChallenge);
inline constexpr std::size_t kMaxPrefaceBytes = 1024;
inline constexpr std::size_t kMaxKnockAddresses = 13;  // as cards have from interfaces
inline constexpr std::size_t kMaxVerdictText = 255;

enum class RelayWish : std::uint8_t {
  kRegister = 1,  // tell me of calls for `self`
  kCall,          // connect me to `wanted`
  kPickUp,        // connect me to who has been told of by `ticket`
  kKnock,         // call me back at these addresses, and say `ticket` there
};
inline constexpr int kRelayWishes = 4;

struct Preface {
  RelayWish wish = RelayWish::kRegister;
  MemberId self;
  MemberId wanted;
  RelayTicket ticket{};
  std::vector<std::byte> claims;  // of the token (secure::encode_claims), as TLS is told them
  std::uint16_t port = 0;
  std::vector<std::string> addresses;  // numeric
  bool operator==(const Preface&) const = default;
};

// The preface and its proof, with their size before them (16 bits).
Result<std::vector<std::byte>> seal_preface(const Preface& preface, const secure::Secret& key,
                                            const RelayChallenge& challenge);

struct SealedPreface {
  Preface preface;
  std::vector<std::byte> fields;  // as they were sent
  std::array<std::byte, secure::kSecretBytes> proof{};
};
// To who has no key that counts.
inline constexpr const char* kUnknownKey = "its secret or token is not one of this relay's";

// Of the bytes after the size.
Result<SealedPreface> parse_preface(std::span<const std::byte> bytes);
Status check_proof(const SealedPreface& sealed, const secure::Secret& key,
                   const RelayChallenge& challenge);

// What a relay answers to a preface: a code, and the size of the text, which follow.
enum class RelayVerdict : std::uint8_t {
  kDone = 0,
  kRefused,  // by what the caller has shown
  kAbsent,   // who is wanted is not registered here
  kFull,
};
std::vector<std::byte> encode_verdict(RelayVerdict verdict, const std::string& text);

// To a registered member: an answer to its sign of life, or a ticket, which 24 bytes follow.
inline constexpr std::byte kRelayLives{1};
inline constexpr std::byte kRelayTicket{2};
inline constexpr std::size_t kTicketNoteBytes = 1 + 8 + sizeof(RelayTicket);
std::vector<std::byte> encode_ticket(MemberId caller, const RelayTicket& ticket);

}  // namespace holdfast::runtime
