// Two TLS sessions and somebody between them, who cuts, damages, repeats, drops and invents bytes
// before, during and after the handshake. Whatever comes out at one end was put in at the other, in
// order, from the start. Input: a byte for the kind of session and how far it is, then steps of a
// byte and its number; `invent` takes so many bytes more.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "secure/tls_session.h"

namespace {

using namespace holdfast;
using namespace holdfast::secure;

void expect(bool holds) {
  if (!holds) __builtin_trap();
}

// Of the host "coordinator", for both ends, until 2126; its key opens nothing anywhere.
constexpr char kAuthority[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBPjCB8aADAgECAhQaOkCe/bZXwzYPo8fsK/gzXnEjYjAFBgMrZXAwFDESMBAG\n"
    "A1UEAwwJYXV0aG9yaXR5MCAXDTI2MTEyNzE5NTk0NVoYDzIxMjYxMTAzMTk1OTQ1\n"
    "WjAUMRIwEAYDVQQDDAlhdXRob3JpdHkwKjAFBgMrZXADIQBPCSnWI7dnYFWfmOGR\n"
    "DFdpYV2bTe3Crns3gaRIa7185qNTMFEwHQYDVR0OBBYEFF9vNYtOXJjzM0OfdxVi\n"
    "9F/V5aqwMB8GA1UdIwQYMBaAFF9vNYtOXJjzM0OfdxVi9F/V5aqwMA8GA1UdEwEB\n"
    "/wQFMAMBAf8wBQYDK2VwA0EARQ3lHdZHkGz1A2gYPK5VML586fRVTV/CedA3fs+K\n"
    "7L6NQMuxES0E/QhDbofOGaK2+UlH/0tj0IhN5bYsp9AAAg==\n"
    "-----END CERTIFICATE-----\n";
constexpr char kCertificate[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBYDCCARKgAwIBAgIUYhfKLAxFIywWs9QWAtEWgVgDg6QwBQYDK2VwMBQxEjAQ\n"
    "BgNVBAMMCWF1dGhvcml0eTAgFw0yNjExMjcxOTU5NDVaGA8yMTI2MTEwMzE5NTk0\n"
    "NVowDzENMAsGA1UEAwwEYm90aDAqMAUGAytlcAMhAN9agrH07yMJEhPgMi+qFuSw\n"
    "5jUj71pW3FF5sC2Y5UI1o3kwdzAdBgNVHSUEFjAUBggrBgEFBQcDAQYIKwYBBQUH\n"
    "AwIwFgYDVR0RBA8wDYILY29vcmRpbmF0b3IwHQYDVR0OBBYEFLtxrgDjaUlQSFE1\n"
    "hY3lrvVurfRkMB8GA1UdIwQYMBaAFF9vNYtOXJjzM0OfdxVi9F/V5aqwMAUGAytl\n"
    "cANBAF+Iu/jV6MoaXfV0xOu8qV/ydm4o3TEC43y2cCMjEybh9V4PwK3VYnzCMXKP\n"
    "X1nXKdbE6PhFcG+OQnvoMmJtTAo=\n"
    "-----END CERTIFICATE-----\n";
constexpr char kKey[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIMMuewtbqztJ2EVagjhsbskNEK5PGVl8+j5NTFotvXnt\n"
    "-----END PRIVATE KEY-----\n";
constexpr UnixTime kThen{1'800'000'000};

Token token_of(const KeyRing& ring) {
  TokenClaims claims;
  claims.run = "run";
  claims.not_after = {10};
  return std::move(ring.mint(std::move(claims))).value();
}

KeyRing ring_of_zeros() {
  std::vector<Secret> secrets;
  secrets.emplace_back(std::array<std::byte, kSecretBytes>{});
  return std::move(KeyRing::make(std::move(secrets))).value();
}

// Made once: keys and contexts never change.
struct Parties {
  KeyRing ring = ring_of_zeros();
  Token token = token_of(ring);
  Identity a = std::move(Identity::generate()).value();
  Identity b = std::move(Identity::generate()).value();
  TlsContext by_token = std::move(TlsContext::for_tokens()).value();
  TlsContext of_a = std::move(TlsContext::of_identity(a)).value();
  TlsContext of_b = std::move(TlsContext::of_identity(b)).value();
  TlsContext certified =
      std::move(TlsContext::of_certificates({kCertificate, kKey, kAuthority, ""})).value();

  TlsTerms terms(const Identity& other) const {
    TlsTerms terms;
    terms.now = kThen;
    terms.token = &token;
    terms.hosts = {"coordinator"};
    terms.records_per_key = 3;
    terms.key_of = [this](std::span<const std::byte> bytes) -> Result<Secret> {
      auto claims = parse_claims(bytes);
      if (!claims.is_ok()) return claims.status();
      return ring.admit(claims.value(), {"run", {5}});
    };
    terms.accepts = [&other](const Fingerprint& shown) -> Status {
      if (shown == other.fingerprint()) return Status::ok();
      return {Code::kAuthFailed, "not the card's"};
    };
    return terms;
  }
};

struct End {
  TlsSession session;
  std::vector<std::byte> on_its_way{};  // what it sent, and has not arrived
  std::vector<std::byte> last{};        // what arrived last
  std::string written{};
  std::string read{};
};

struct Steps {
  std::span<const std::uint8_t> rest;
  std::uint8_t next() {
    if (rest.empty()) return 0;
    const std::uint8_t value = rest.front();
    rest = rest.subspan(1);
    return value;
  }
  std::span<const std::byte> take(std::size_t size) {
    const auto part = rest.first(std::min(size, rest.size()));
    rest = rest.subspan(part.size());
    return std::as_bytes(part);
  }
};

void collect(End& end) {
  const auto bytes = end.session.take_outgoing();
  end.on_its_way.insert(end.on_its_way.end(), bytes.begin(), bytes.end());
}

// Odd numbers of bytes are read to a place of the reader's, which may be smaller than a record.
void take_in(End& to, std::span<const std::byte> bytes) {
  if (bytes.size() % 2 == 1) {
    std::vector<std::byte> place(1 + bytes.size() * 31 % 20'000);
    while (!bytes.empty()) {
      const TlsFed fed = to.session.feed(bytes, place);
      expect(fed.taken <= bytes.size() && fed.read <= place.size());
      expect(fed.taken > 0 || fed.read > 0);
      to.read.append(reinterpret_cast<const char*>(place.data()), fed.read);
      bytes = bytes.subspan(fed.taken);
    }
  }
  to.session.feed(bytes);
  const auto readable = to.session.readable();
  to.read.append(reinterpret_cast<const char*>(readable.data()), readable.size());
  to.session.consume(readable.size());
}

void arrive(End& from, End& to, std::size_t size, bool is_damaged) {
  collect(from);
  size = std::min(size, from.on_its_way.size());
  from.last.assign(from.on_its_way.begin(), from.on_its_way.begin() + static_cast<long>(size));
  from.on_its_way.erase(from.on_its_way.begin(), from.on_its_way.begin() + static_cast<long>(size));
  if (is_damaged && size > 0) from.last[size / 2] ^= std::byte{16};
  take_in(to, from.last);
}

void step(Steps& steps, End& from, End& to, std::uint8_t what) {
  const std::uint8_t number = steps.next();
  switch (what % 9) {
    case 0: return arrive(from, to, SIZE_MAX, false);
    case 1: return arrive(from, to, number, false);
    case 2: return arrive(from, to, number, true);
    case 3: return take_in(to, from.last);
    case 4: return take_in(to, steps.take(number));
    case 5: {
      const std::string words(std::size_t{number} * number, static_cast<char>('a' + number % 26));
      if (from.session.write(std::as_bytes(std::span(words))).is_ok()) from.written += words;
      return;
    }
    case 6: return to.session.feed_end();
    case 7: return from.session.close();
    default: from.on_its_way.clear();
  }
}

// Nobody is believed without a proof, nor for two things at once.
void check_peer(const TlsSession& server, bool certified, bool by_token) {
  if (!certified || server.state() != TlsState::kOpen) return;
  expect(server.peer().certificate.has_value() == !by_token);
  expect(server.peer().claims.empty() == !by_token);
}

void check(const End& from, const End& to) {
  expect(from.written.starts_with(to.read));
  expect((to.session.state() == TlsState::kFailed) == !to.session.failure().is_ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!available()) return 0;
  static const Parties parties;
  Steps steps{std::span(data, size)};
  const std::uint8_t kind = steps.next();
  const bool by_token = (kind & 1) == 0;
  // A server that takes tokens beside certificates, and a client that has either.
  const bool certified = (kind & 8) != 0;
  const TlsContext& by_key = certified ? parties.certified : parties.of_a;
  const TlsContext& other = by_token ? parties.by_token : parties.of_b;
  End client{
      std::move(TlsSession::client(by_token ? parties.by_token : by_key, parties.terms(parties.b)))
          .value()};
  End server{
      std::move(TlsSession::server(certified ? parties.certified : other, parties.terms(parties.a)))
          .value()};
  for (int flight = 0; flight < (kind >> 1) % 4; ++flight) {
    if (flight % 2 == 0) {
      arrive(client, server, SIZE_MAX, false);
    } else {
      arrive(server, client, SIZE_MAX, false);
    }
  }
  while (!steps.rest.empty()) {
    const std::uint8_t what = steps.next();
    End& from = what < 128 ? client : server;
    End& to = what < 128 ? server : client;
    step(steps, from, to, what);
    check(client, server);
    check(server, client);
    check_peer(server.session, certified, by_token);
  }
  return 0;
}
