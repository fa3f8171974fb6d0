#ifdef HOLDFAST_OPENSSL
#include "secure/signature.h"

#include <openssl/evp.h>

#include <vector>

#include "secure/openssl.h"

namespace holdfast::secure {
namespace {

std::vector<std::byte> statement_of(std::string_view purpose, std::span<const std::byte> text) {
  const auto begin = std::as_bytes(std::span(purpose));
  std::vector<std::byte> bytes(begin.begin(), begin.end());
  bytes.push_back(std::byte{0});
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

}  // namespace

Result<Signature> sign(const Identity& identity, std::string_view purpose,
                       std::span<const std::byte> text) {
  const auto statement = statement_of(purpose, text);
  const Owned<EVP_MD_CTX> work(EVP_MD_CTX_new());
  Signature made{};
  std::size_t size = made.size();
  if (work == nullptr ||
      EVP_DigestSignInit(work.get(), nullptr, nullptr, nullptr, identity.key()) != 1 ||
      EVP_DigestSign(work.get(), reinterpret_cast<unsigned char*>(made.data()), &size,
                     reinterpret_cast<const unsigned char*>(statement.data()),
                     statement.size()) != 1 ||
      size != made.size()) {
    return Status{Code::kSystem, "OpenSSL cannot sign: " + openssl_reason()};
  }
  return made;
}

bool is_signed(const PublicKey& key, std::string_view purpose, std::span<const std::byte> text,
               std::span<const std::byte> signature) {
  const auto statement = statement_of(purpose, text);
  const Owned<EVP_PKEY> verifier(EVP_PKEY_new_raw_public_key(
      EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(key.data()), key.size()));
  const Owned<EVP_MD_CTX> work(EVP_MD_CTX_new());
  const bool sound =
      verifier != nullptr && work != nullptr &&
      EVP_DigestVerifyInit(work.get(), nullptr, nullptr, nullptr, verifier.get()) == 1 &&
      EVP_DigestVerify(work.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(statement.data()),
                       statement.size()) == 1;
  openssl_reason();
  return sound;
}

}  // namespace holdfast::secure
#endif
