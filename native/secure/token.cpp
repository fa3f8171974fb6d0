#include "secure/token.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/checksum.h"
#include "secure/base32.h"
#include "secure/hex.h"

namespace holdfast::secure {
namespace {

constexpr std::string_view kPrefix = "hf1-";
constexpr std::string_view kFileLine = "holdfast secret 1";
constexpr std::uint8_t kClaimsVersion = 1;
constexpr std::size_t kChecksumBytes = 4;
// Claims with a name of one letter, and with the longest.
constexpr std::size_t kFixedClaimsBytes = 1 + 4 + 16 + 1 + 8 + 4 + 1;
constexpr std::size_t kLeastBytes = kFixedClaimsBytes + 1 + kSecretBytes + kChecksumBytes;
constexpr std::size_t kMostBytes = kFixedClaimsBytes + kMaxRunName + kSecretBytes + kChecksumBytes;
constexpr std::size_t kMostText = kPrefix.size() + (8 * kMostBytes + 4) / 5;

Status wrong(std::string message) { return {Code::kConfigError, std::move(message)}; }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Two units at most, the larger first.
std::string span_text(std::int64_t seconds) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  const auto two = [&](std::int64_t unit, const char* name, std::int64_t less, const char* other) {
    const std::int64_t rest = seconds % unit / less;
    return std::to_string(seconds / unit) + name +
           (rest > 0 ? " " + std::to_string(rest) + other : "");
  };
  if (seconds >= kDay) return two(kDay, " d", kHour, " h");
  if (seconds >= kHour) return two(kHour, " h", kMinute, " min");
  if (seconds >= kMinute) return two(kMinute, " min", 1, " s");
  return std::to_string(seconds) + " s";
}

}  // namespace

Status check_run_name(std::string_view run) {
  if (run.empty()) return wrong("the run's name is empty");
  if (run.size() > kMaxRunName) {
    return wrong("the run's name has " + std::to_string(run.size()) + " bytes, and at most " +
                 std::to_string(kMaxRunName) + " are allowed");
  }
  const auto sound = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.").find(c) != std::string_view::npos;
  };
  if (!std::ranges::all_of(run, sound)) {
    return wrong("a run's name has letters, digits, '-', '_' and '.' only");
  }
  return Status::ok();
}

const char* role_name(TokenRole role) {
  switch (role) {
    case TokenRole::kMember: return "member";
    case TokenRole::kObserver: return "observer";
    case TokenRole::kAdmin: return "admin";
  }
  return "?";
}

Result<TokenRole> parse_role(std::string_view name) {
  for (const auto role : {TokenRole::kMember, TokenRole::kObserver, TokenRole::kAdmin}) {
    if (name == role_name(role)) return role;
  }
  return wrong("unknown role: a role is member, observer or admin");
}

std::string serial_text(const Serial& serial) { return hex(serial.bytes); }

Result<Serial> parse_serial(std::string_view text) {
  Serial serial;
  if (!unhex(text, serial.bytes)) return wrong("a token's serial is 32 hexadecimal digits");
  return serial;
}

std::vector<std::byte> encode_claims(const TokenClaims& claims) {
  Writer out;
  out.number(kClaimsVersion);
  out.raw(claims.secret);
  out.raw(claims.serial.bytes);
  out.number(static_cast<std::uint8_t>(claims.role));
  out.number(claims.not_after.value);
  out.number(claims.uses);
  out.text(claims.run);
  return out.take();
}

Result<TokenClaims> parse_claims(std::span<const std::byte> bytes) {
  Reader in(bytes);
  TokenClaims claims;
  if (in.number<std::uint8_t>() != kClaimsVersion) {
    return wrong("the token is of another version of Holdfast");
  }
  const auto fill = [&in](std::span<std::byte> to) {
    std::ranges::copy(in.raw(to.size()), to.begin());
  };
  fill(claims.secret);
  fill(claims.serial.bytes);
  const auto role = in.number<std::uint8_t>();
  claims.not_after.value = in.number<std::int64_t>();
  claims.uses = in.number<std::uint32_t>();
  const std::uint64_t size = in.count();
  if (!in.failed() && size > kMaxRunName) {
    return wrong("the token's run has a name of " + std::to_string(size) + " bytes, and at most " +
                 std::to_string(kMaxRunName) + " are allowed");
  }
  const auto name = in.raw(static_cast<std::size_t>(size));
  claims.run.assign(reinterpret_cast<const char*>(name.data()), name.size());
  if (!in.ended()) return wrong("the token is truncated, or has more than a token has");
  if (role > static_cast<std::uint8_t>(TokenRole::kAdmin)) {
    return wrong("the token has an unknown role (number " + std::to_string(role) + ")");
  }
  claims.role = static_cast<TokenRole>(role);
  TRY(check_run_name(claims.run));
  return claims;
}

std::string token_text(const Token& token) {
  std::vector<std::byte> bytes = encode_claims(token.claims);
  // Room for all at once: a vector that grows leaves a copy of the key behind.
  bytes.reserve(kMostBytes);
  bytes.insert(bytes.end(), token.key.bytes().begin(), token.key.bytes().end());
  Writer sum;
  sum.number(checksum(bytes));
  const auto end = sum.take();
  bytes.insert(bytes.end(), end.begin(), end.end());
  std::string text = std::string(kPrefix) + base32(bytes);
  wipe(bytes);
  return text;
}

Result<Token> parse_token(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with(kPrefix)) {
    return wrong("this is no token: a token begins with \"" + std::string(kPrefix) + "\"");
  }
  if (text.size() > kMostText) return wrong("this is no token: it is longer than any token");
  auto bytes = parse_base32(text.substr(kPrefix.size()));
  if (!bytes.has_value()) {
    return wrong("the token has a typo or is truncated: its letters are no encoding of bytes");
  }
  if (bytes->size() < kLeastBytes) return wrong("the token is truncated");
  const auto all = std::span<const std::byte>(*bytes);
  const auto body = all.first(all.size() - kChecksumBytes);
  Reader sum(all.last(kChecksumBytes));
  if (sum.number<std::uint32_t>() != checksum(body)) {
    wipe(*bytes);
    return wrong("the token has a typo: its checksum does not match");
  }
  auto claims = parse_claims(body.first(body.size() - kSecretBytes));
  Secret key(body.last<kSecretBytes>());
  wipe(*bytes);
  if (!claims.is_ok()) return claims.status();
  return Token{std::move(claims).value(), std::move(key)};
}

Status check_claims(const TokenClaims& claims, const TokenGate& gate) {
  if (claims.run != gate.run) {
    return wrong("the token is of the run \"" + claims.run + "\", and this is \"" + gate.run +
                 "\"");
  }
  if (gate.revoked.contains(claims.serial)) {
    return wrong("the token " + serial_text(claims.serial) + " was revoked");
  }
  if (gate.now > claims.not_after) {
    // Differences of any two numbers of seconds need not fit.
    const auto late = static_cast<std::uint64_t>(gate.now.value) -
                      static_cast<std::uint64_t>(claims.not_after.value);
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    return wrong("the token expired " +
                 span_text(static_cast<std::int64_t>(std::min(late, kMost))) + " ago");
  }
  return Status::ok();
}

std::string secret_file_text(const Secret& secret) {
  return std::string(kFileLine) + "\n" + hex(secret.bytes()) + "\n";
}

Result<Secret> parse_secret_file(std::string_view text) {
  text = trimmed(text);
  const auto line_end = text.find('\n');
  if (trimmed(text.substr(0, line_end)) != kFileLine) {
    return wrong("this is no secret file: its first line is not \"" + std::string(kFileLine) +
                 "\"");
  }
  const auto digits =
      line_end == std::string_view::npos ? std::string_view() : trimmed(text.substr(line_end));
  std::array<std::byte, kSecretBytes> bytes{};
  const bool sound = unhex(digits, bytes);
  Secret secret{bytes};
  wipe(bytes);
  if (!sound) return wrong("the secret file's second line is not 64 hexadecimal digits");
  return secret;
}

}  // namespace holdfast::secure
