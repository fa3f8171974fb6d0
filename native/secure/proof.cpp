#ifdef HOLDFAST_OPENSSL
#include "secure/proof.h"

#include <openssl/evp.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "secure/openssl.h"

namespace holdfast::secure {
namespace {

// What is signed begins with what it is for: the same key signs handshakes, whose texts differ.
std::vector<std::byte> statement(const Binding& binding, TlsSide prover) {
  constexpr std::string_view kPurpose{"holdfast proof of a key, 1\0", 27};
  const auto purpose = std::as_bytes(std::span(kPurpose));
  std::vector<std::byte> bytes(purpose.begin(), purpose.end());
  bytes.push_back(static_cast<std::byte>(prover));
  bytes.insert(bytes.end(), binding.begin(), binding.end());
  return bytes;
}

const unsigned char* octets(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

Result<Proof> prove(const Identity& identity, const Binding& binding, TlsSide prover) {
  Proof proof{};
  std::ranges::copy(identity.public_key(), proof.begin());
  const auto signed_bytes = statement(binding, prover);
  const Owned<EVP_MD_CTX> work(EVP_MD_CTX_new());
  std::size_t size = kSignatureBytes;
  auto* signature = reinterpret_cast<unsigned char*>(proof.data() + kPublicKeyBytes);
  if (work == nullptr ||
      EVP_DigestSignInit(work.get(), nullptr, nullptr, nullptr, identity.key()) != 1 ||
      EVP_DigestSign(work.get(), signature, &size, octets(signed_bytes), signed_bytes.size()) !=
          1 ||
      size != kSignatureBytes) {
    return Status{Code::kSystem, "OpenSSL cannot sign: " + openssl_reason()};
  }
  return proof;
}

Status check_proof(std::span<const std::byte> proof, const Fingerprint& expected,
                   const Binding& binding, TlsSide prover) {
  if (proof.size() != kProofBytes) {
    return {Code::kAuthFailed, "the proof of a key has " + std::to_string(proof.size()) +
                                   " bytes, not " + std::to_string(kProofBytes)};
  }
  PublicKey key{};
  std::ranges::copy(proof.first(kPublicKeyBytes), key.begin());
  auto shown = fingerprint_of(key);
  if (!shown.is_ok()) return shown.status();
  if (shown.value() != expected) {
    return {Code::kAuthFailed, "the peer proved the key " + fingerprint_text(shown.value()) +
                                   ", but its card tells " + fingerprint_text(expected)};
  }
  const Owned<EVP_PKEY> verifier(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, octets(key), key.size()));
  const Owned<EVP_MD_CTX> work(EVP_MD_CTX_new());
  const auto signed_bytes = statement(binding, prover);
  const auto signature = proof.subspan(kPublicKeyBytes);
  const bool sound =
      verifier != nullptr && work != nullptr &&
      EVP_DigestVerifyInit(work.get(), nullptr, nullptr, nullptr, verifier.get()) == 1 &&
      EVP_DigestVerify(work.get(), octets(signature), signature.size(), octets(signed_bytes),
                       signed_bytes.size()) == 1;
  openssl_reason();
  if (sound) return Status::ok();
  return {Code::kAuthFailed, "the proof of the key " + fingerprint_text(expected) +
                                 " was not made in this session, or not by that key"};
}

}  // namespace holdfast::secure
#endif
