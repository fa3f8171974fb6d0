// Join tokens: one line of text that lets a process into a run. What a token says (`TokenClaims`)
// is public; its key is derived from the run's secret and from what it says, so who has the secret
// knows the key of every token, and nobody else learns a key from what is sent. Counting uses, and
// reading files and clocks, is the caller's.
// Why: docs/decisions/0153-a-token-is-a-derived-key.md
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "secure/secret.h"

namespace holdfast::secure {

// Seconds since 1970, by the clocks of the hosts.
using UnixTime = Strong<struct UnixTimeTag, std::int64_t>;

enum class TokenRole : std::uint8_t { kMember, kObserver, kAdmin };

const char* role_name(TokenRole role);
Result<TokenRole> parse_role(std::string_view name);

// Tells a token from all others, and is what a list of revoked ones holds. Random.
struct Serial {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const Serial&) const = default;
};
std::string serial_text(const Serial& serial);
Result<Serial> parse_serial(std::string_view text);

// The public name of a secret.
using SecretId = std::array<std::byte, 4>;

// Names of runs go into every handshake, and an identity of TLS holds 256 bytes.
inline constexpr std::size_t kMaxRunName = 64;
inline constexpr std::uint32_t kAnyUses = 0;
// Letters that do nothing in terminals and logs. kConfigError else.
Status check_run_name(std::string_view run);

struct TokenClaims {
  SecretId secret{};
  Serial serial;
  std::string run;
  TokenRole role = TokenRole::kMember;
  UnixTime not_after;
  std::uint32_t uses = kAnyUses;
  bool operator==(const TokenClaims&) const = default;
};

// The one encoding of a token's claims: what the key is derived from, and the identity that TLS
// tells the other side. Any thread, as all functions here.
std::vector<std::byte> encode_claims(const TokenClaims& claims);
Result<TokenClaims> parse_claims(std::span<const std::byte> bytes);

struct Token {
  TokenClaims claims;
  Secret key;
};

// "hf1-", then claims, key and a checksum in base32. The text is as secret as the key.
std::string token_text(const Token& token);
Result<Token> parse_token(std::string_view text);

// What a token is held against.
struct TokenGate {
  std::string run;
  UnixTime now;
  std::set<Serial> revoked{};
};

// Whether the claims let somebody in. A holder asks, too, before it asks the network.
Status check_claims(const TokenClaims& claims, const TokenGate& gate);

// A secret file's text: a line with its version, and the secret in hexadecimal digits.
std::string secret_file_text(const Secret& secret);
Result<Secret> parse_secret_file(std::string_view text);

// The secrets of a run: the one that tokens are minted from, and while it is being replaced the one
// before. It never changes: any thread, while one owns it.
class KeyRing {
 public:
  static constexpr std::size_t kMaxSecrets = 2;

  // The first secret mints.
  static Result<KeyRing> make(std::vector<Secret> secrets);

  // A token of these claims; which secret it is of is set here.
  Result<Token> mint(TokenClaims claims) const;

  // The key of claims that are good at the gate.
  Result<Secret> admit(const TokenClaims& claims, const TokenGate& gate) const;

 private:
  struct KnownSecret {
    SecretId id;
    Secret secret;
  };
  explicit KeyRing(std::vector<KnownSecret> entries) : entries_(std::move(entries)) {}

  std::vector<KnownSecret> entries_;
};

}  // namespace holdfast::secure
