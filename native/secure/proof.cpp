#ifdef HOLDFAST_OPENSSL
#include "secure/proof.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "secure/signature.h"

namespace holdfast::secure {
namespace {

constexpr std::string_view kPurpose = "holdfast proof of a key, 1";

std::array<std::byte, 1 + sizeof(Binding)> statement(const Binding& binding, TlsSide prover) {
  std::array<std::byte, 1 + sizeof(Binding)> bytes{};
  bytes[0] = static_cast<std::byte>(prover);
  std::ranges::copy(binding, bytes.begin() + 1);
  return bytes;
}

}  // namespace

Result<Proof> prove(const Identity& identity, const Binding& binding, TlsSide prover) {
  auto signature = sign(identity, kPurpose, statement(binding, prover));
  if (!signature.is_ok()) return signature.status();
  Proof proof{};
  std::ranges::copy(identity.public_key(), proof.begin());
  std::ranges::copy(signature.value(), proof.begin() + kPublicKeyBytes);
  return proof;
}

Result<Fingerprint> fingerprint_in(std::span<const std::byte> proof) {
  if (proof.size() != kProofBytes) {
    return Status{Code::kAuthFailed, "the proof of a key has " + std::to_string(proof.size()) +
                                         " bytes, not " + std::to_string(kProofBytes)};
  }
  PublicKey key{};
  std::ranges::copy(proof.first(kPublicKeyBytes), key.begin());
  return fingerprint_of(key);
}

Status check_proof(std::span<const std::byte> proof, const Fingerprint& expected,
                   const Binding& binding, TlsSide prover) {
  auto shown = fingerprint_in(proof);
  if (!shown.is_ok()) return shown.status();
  if (shown.value() != expected) {
    return {Code::kAuthFailed, "the peer proved the key " + fingerprint_text(shown.value()) +
                                   ", but its card tells " + fingerprint_text(expected)};
  }
  PublicKey key{};
  std::ranges::copy(proof.first(kPublicKeyBytes), key.begin());
  if (is_signed(key, kPurpose, statement(binding, prover), proof.subspan(kPublicKeyBytes))) {
    return Status::ok();
  }
  return {Code::kAuthFailed, "the proof of the key " + fingerprint_text(expected) +
                                 " was not made in this session, or not by that key"};
}

}  // namespace holdfast::secure
#endif
