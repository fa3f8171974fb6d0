// Keys of tokens from secrets. What a token says is in token.cpp.
#include <algorithm>
#include <utility>

#include "secure/digest.h"
#include "secure/hex.h"
#include "secure/token.h"

namespace holdfast::secure {
namespace {

// Labels of HKDF: what is derived for one purpose tells nothing of the other.
constexpr std::string_view kKeyLabel = "holdfast token key 1";
constexpr std::string_view kIdLabel = "id";

Result<SecretId> id_of(const Secret& secret) {
  auto derived = derive(secret, kIdLabel);
  if (!derived.is_ok()) return derived.status();
  auto digest = sha256(derived.value().bytes());
  if (!digest.is_ok()) return digest.status();
  SecretId id{};
  std::ranges::copy(std::span(digest.value()).first(id.size()), id.begin());
  return id;
}

}  // namespace

Result<KeyRing> KeyRing::make(std::vector<Secret> secrets) {
  if (secrets.empty() || secrets.size() > kMaxSecrets) {
    return Status{Code::kConfigError,
                  "a run has one secret, or two while one replaces the other; here are " +
                      std::to_string(secrets.size())};
  }
  std::vector<KnownSecret> entries;
  for (Secret& secret : secrets) {
    auto id = id_of(secret);
    if (!id.is_ok()) return id.status();
    for (const KnownSecret& entry : entries) {
      if (entry.id == id.value()) {
        return Status{Code::kConfigError, "the run's two secrets are the same, or have one id"};
      }
    }
    entries.push_back({id.value(), std::move(secret)});
  }
  return KeyRing(std::move(entries));
}

Result<Token> KeyRing::mint(TokenClaims claims) const {
  claims.secret = entries_.front().id;
  const auto bytes = encode_claims(claims);
  // Reading it back asks all that is asked of a token.
  if (auto sound = parse_claims(bytes); !sound.is_ok()) return sound.status();
  auto key = derive(entries_.front().secret, kKeyLabel, bytes);
  if (!key.is_ok()) return key.status();
  return Token{std::move(claims), std::move(key).value()};
}

Result<Secret> KeyRing::admit(const TokenClaims& claims, const TokenGate& gate) const {
  TRY(check_claims(claims, gate));
  const auto entry = std::ranges::find(entries_, claims.secret, &KnownSecret::id);
  if (entry == entries_.end()) {
    return Status{Code::kConfigError, "the token is of the secret " + hex(claims.secret) +
                                          ", which this run has not, or has no more"};
  }
  return derive(entry->secret, kKeyLabel, encode_claims(claims));
}

}  // namespace holdfast::secure
