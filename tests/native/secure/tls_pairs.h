// Two sessions, and the bytes between them: pumped until neither has anything to say.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "secure/tls_session.h"

namespace holdfast::secure {

using ByteList = std::vector<std::byte>;

inline ByteList list_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string text_of(TlsSession& session) {
  const auto bytes = session.readable();
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  session.consume(bytes.size());
  return text;
}

struct TlsPair {
  TlsSession client;
  TlsSession server;
};

// Feeds `bytes` in pieces of `piece` bytes.
inline void feed_in_pieces(TlsSession& to, std::span<const std::byte> bytes, std::size_t piece) {
  while (!bytes.empty()) {
    const auto next = bytes.first(std::min(piece, bytes.size()));
    to.feed(next);
    bytes = bytes.subspan(next.size());
  }
}

inline void pump(TlsSession& client, TlsSession& server, std::size_t piece = SIZE_MAX) {
  while (!client.outgoing().empty() || !server.outgoing().empty()) {
    feed_in_pieces(server, client.take_outgoing(), piece);
    feed_in_pieces(client, server.take_outgoing(), piece);
  }
}
inline void pump(TlsPair& pair, std::size_t piece = SIZE_MAX) {
  pump(pair.client, pair.server, piece);
}

inline bool both_open(const TlsPair& pair) {
  return pair.client.state() == TlsState::kOpen && pair.server.state() == TlsState::kOpen;
}

inline Secret secret_of(int filled_with) {
  std::array<std::byte, kSecretBytes> bytes{};
  bytes.fill(static_cast<std::byte>(filled_with));
  return Secret(bytes);
}

inline KeyRing ring_of(int filled_with) {
  std::vector<Secret> secrets;
  secrets.push_back(secret_of(filled_with));
  return std::move(KeyRing::make(std::move(secrets))).value();
}

// A run whose coordinator has a secret, and tokens of it.
struct TokenRun {
  // Shared with terms of sessions that may outlive this.
  std::shared_ptr<const KeyRing> ring = std::make_shared<const KeyRing>(ring_of(1));
  TokenGate gate{"exp-7", {1000}};
  TlsContext context = std::move(TlsContext::for_tokens()).value();

  Token token(const std::string& run = "exp-7", UnixTime not_after = {2000}) const {
    TokenClaims claims;
    claims.run = run;
    claims.not_after = not_after;
    return std::move(ring->mint(std::move(claims))).value();
  }
  TlsTerms server_terms() const {
    TlsTerms terms;
    terms.key_of = [ring = ring, gate = gate](std::span<const std::byte> bytes) -> Result<Secret> {
      auto claims = parse_claims(bytes);
      if (!claims.is_ok()) return claims.status();
      return ring->admit(claims.value(), gate);
    };
    return terms;
  }
  TlsSession server() const {
    return std::move(TlsSession::server(context, server_terms())).value();
  }
  TlsSession client(const Token& token) const {
    TlsTerms terms;
    terms.token = &token;
    return std::move(TlsSession::client(context, std::move(terms))).value();
  }
  TlsPair pair() const { return {client(token()), server()}; }
};

// Whose key it must be.
inline TlsTerms expecting(const Fingerprint& expected) {
  TlsTerms terms;
  terms.accepts = [expected](const Fingerprint& shown) -> Status {
    if (shown == expected) return Status::ok();
    return {Code::kAuthFailed, "the key " + fingerprint_text(shown) + " is not the card's, " +
                                   fingerprint_text(expected)};
  };
  return terms;
}

// Two members that were told each other's cards.
struct Acquaintances {
  Identity a = std::move(Identity::generate()).value();
  Identity b = std::move(Identity::generate()).value();
  TlsContext a_context = std::move(TlsContext::of_identity(a)).value();
  TlsContext b_context = std::move(TlsContext::of_identity(b)).value();

  TlsPair pair() const {
    return {std::move(TlsSession::client(a_context, expecting(b.fingerprint()))).value(),
            std::move(TlsSession::server(b_context, expecting(a.fingerprint()))).value()};
  }
};

}  // namespace holdfast::secure
