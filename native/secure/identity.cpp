#ifdef HOLDFAST_OPENSSL
#include "secure/identity.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "secure/digest.h"

namespace holdfast::secure {
namespace {

// A process's certificate carries a key, and no more: who trusts the key asks for no date, so it
// has the first one and the last one that can be written (RFC 5280, 4.1.2.5).
constexpr char kNotBefore[] = "19700101000000Z";
constexpr char kNotAfter[] = "99991231235959Z";
constexpr char kName[] = "holdfast";

// A SubjectPublicKeyInfo of Ed25519 up to the key's own bytes (RFC 8410, 4).
constexpr std::array kBeforeKey{std::byte{0x30}, std::byte{0x2a}, std::byte{0x30}, std::byte{0x05},
                                std::byte{0x06}, std::byte{0x03}, std::byte{0x2b}, std::byte{0x65},
                                std::byte{0x70}, std::byte{0x03}, std::byte{0x21}, std::byte{0x00}};

Status failure(const char* what) {
  return {Code::kSystem, std::string("OpenSSL cannot make ") + what + ": " + openssl_reason()};
}

Result<PublicKey> raw_key(EVP_PKEY* key) {
  PublicKey raw{};
  std::size_t size = raw.size();
  if (key == nullptr || EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(raw.data()), &size) != 1 ||
      size != raw.size()) {
    openssl_reason();
    return Status{Code::kAuthFailed, "the certificate's key is not Ed25519"};
  }
  return raw;
}

Owned<X509> self_signed(EVP_PKEY* key) {
  Owned<X509> made(X509_new());
  if (made == nullptr) return nullptr;
  X509_NAME* name = X509_get_subject_name(made.get());
  const auto* text = reinterpret_cast<const unsigned char*>(kName);
  const bool sound = X509_set_version(made.get(), X509_VERSION_3) == 1 &&
                     ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1) == 1 &&
                     ASN1_TIME_set_string_X509(X509_getm_notBefore(made.get()), kNotBefore) == 1 &&
                     ASN1_TIME_set_string_X509(X509_getm_notAfter(made.get()), kNotAfter) == 1 &&
                     X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1 &&
                     X509_set_issuer_name(made.get(), name) == 1 &&
                     X509_set_pubkey(made.get(), key) == 1 &&
                     X509_sign(made.get(), key, nullptr) > 0;
  return sound ? std::move(made) : nullptr;
}

}  // namespace

Result<Fingerprint> fingerprint_of(const PublicKey& key) {
  std::vector<std::byte> info(kBeforeKey.begin(), kBeforeKey.end());
  info.insert(info.end(), key.begin(), key.end());
  auto digest = sha256(info);
  if (!digest.is_ok()) return digest.status();
  return Fingerprint{digest.value()};
}

Result<PublicKey> public_key_of(x509_st* certificate) {
  return raw_key(X509_get0_pubkey(certificate));
}

Identity::Identity(Owned<evp_pkey_st> key, Owned<x509_st> certificate, PublicKey public_key,
                   Fingerprint fingerprint)
    : key_(std::move(key)),
      certificate_(std::move(certificate)),
      public_key_(public_key),
      fingerprint_(fingerprint) {}

Result<Identity> Identity::generate() {
  prepare_openssl();
  Owned<EVP_PKEY> key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  return of_key(std::move(key));
}

Result<Identity> Identity::of_seed(const Secret& seed) {
  prepare_openssl();
  const auto* bytes = reinterpret_cast<const unsigned char*>(seed.bytes().data());
  return of_key(Owned<EVP_PKEY>(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes, seed.bytes().size())));
}

Result<Identity> Identity::of_key(Owned<evp_pkey_st> key) {
  if (key == nullptr) return failure("a key");
  Owned<X509> certificate = self_signed(key.get());
  if (certificate == nullptr) return failure("a certificate");
  auto raw = raw_key(key.get());
  if (!raw.is_ok()) return raw.status();
  auto fingerprint = fingerprint_of(raw.value());
  if (!fingerprint.is_ok()) return fingerprint.status();
  return Identity(std::move(key), std::move(certificate), raw.value(), fingerprint.value());
}

}  // namespace holdfast::secure
#endif
