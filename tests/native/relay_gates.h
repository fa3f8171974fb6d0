// By what relays of tests let callers in: a ring of one secret, and its tokens.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/relay/relay_core.h"
#include "runtime/rendezvous/sealer.h"
#include "secure/openssl.h"

namespace holdfast::runtime::testing {

inline secure::KeyRing ring_of(std::byte fill) {
  std::array<std::byte, secure::kSecretBytes> bytes;
  bytes.fill(fill);
  std::vector<secure::Secret> secrets;
  secrets.emplace_back(bytes);
  return std::move(secure::KeyRing::make(std::move(secrets))).value();
}

inline secure::Token token_of(const secure::KeyRing& ring, const std::string& run, std::byte serial,
                              std::int64_t life = 3600) {
  secure::TokenClaims claims;
  claims.run = run;
  claims.serial.bytes.fill(serial);
  claims.not_after = {unix_now().value + life};
  return std::move(ring.mint(std::move(claims))).value();
}

// A gate of one ring, and what it has revoked.
struct Gate {
  secure::KeyRing ring = ring_of(std::byte{7});
  std::set<secure::Serial> revoked;

  RelayGate gate() {
    return {[this](std::span<const std::byte> bytes) -> Result<secure::Secret> {
              const auto claims = secure::parse_claims(bytes);
              if (!claims.is_ok()) return claims.status();
              return ring.admit(claims.value(), {claims.value().run, claims.value().not_after});
            },
            [this](const secure::TokenClaims& claims) { return check_member(claims, revoked); }};
  }
  secure::Token token(std::byte serial, const std::string& run = "run7") const {
    return token_of(ring, run, serial);
  }
};

inline constexpr std::byte kA{1};
inline constexpr std::byte kB{2};

}  // namespace holdfast::runtime::testing
