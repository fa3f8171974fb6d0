// A process's key pair (Ed25519), the fingerprint that a member's card tells of it, and the
// self-signed certificate that carries it in TLS. A process's keys live as long as it does: nothing
// here loads or saves them. A coordinator's come from its secret.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "secure/openssl.h"
#include "secure/secret.h"

namespace holdfast::secure {

inline constexpr std::size_t kPublicKeyBytes = 32;
using PublicKey = std::array<std::byte, kPublicKeyBytes>;

// The SHA-256 of a public key's SubjectPublicKeyInfo (RFC 5280, 4.1).
struct Fingerprint {
  std::array<std::byte, 32> bytes{};
  auto operator<=>(const Fingerprint&) const = default;
};

// 64 hexadecimal digits. Any thread.
std::string fingerprint_text(const Fingerprint& fingerprint);
Result<Fingerprint> parse_fingerprint(std::string_view text);
Result<Fingerprint> fingerprint_of(const PublicKey& key);

// The Ed25519 key of a certificate; any other kind of key is an error. Any thread.
Result<PublicKey> public_key_of(x509_st* certificate);

// What it is made of never changes: any thread may use it, while one owns it.
class Identity {
 public:
  static Result<Identity> generate();
  // The same key for the same seed.
  static Result<Identity> of_seed(const Secret& seed);

  const PublicKey& public_key() const { return public_key_; }
  const Fingerprint& fingerprint() const { return fingerprint_; }

  // OpenSSL's, for this folder; they live as long as this object. OpenSSL wipes the key.
  evp_pkey_st* key() const { return key_.get(); }
  x509_st* certificate() const { return certificate_.get(); }

 private:
  static Result<Identity> of_key(Owned<evp_pkey_st> key);
  Identity(Owned<evp_pkey_st> key, Owned<x509_st> certificate, PublicKey public_key,
           Fingerprint fingerprint);

  Owned<evp_pkey_st> key_;
  Owned<x509_st> certificate_;
  PublicKey public_key_;
  Fingerprint fingerprint_;
};

}  // namespace holdfast::secure
