#ifdef HOLDFAST_OPENSSL
#include "secure/digest.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <cstring>
#include <vector>

#include "secure/openssl.h"

namespace holdfast::secure {
namespace {

Status failure(const char* what) {
  return {Code::kSystem, std::string("OpenSSL cannot compute ") + what + ": " + openssl_reason()};
}

}  // namespace

Result<Sha256> sha256(std::span<const std::byte> bytes) {
  prepare_openssl();
  Sha256 digest{};
  if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                 nullptr, EVP_sha256(), nullptr) != 1) {
    return failure("SHA-256");
  }
  return digest;
}

Result<Secret> derive(const Secret& secret, std::string_view label,
                      std::span<const std::byte> context) {
  prepare_openssl();
  // The 0 ends the label, so that no label with its context is another's.
  std::vector<unsigned char> info(label.begin(), label.end());
  info.push_back(0);
  for (const std::byte b : context) info.push_back(std::to_integer<unsigned char>(b));
  auto key = secret.copy();
  const Owned<EVP_KDF> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const Owned<EVP_KDF_CTX> work(kdf == nullptr ? nullptr : EVP_KDF_CTX_new(kdf.get()));
  if (work == nullptr) return failure("HKDF");
  char hash[] = "SHA256";
  // Inputs that OpenSSL's table of parameters takes as if it wrote to them.
  auto* key_bytes = const_cast<std::byte*>(key.bytes().data());
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, hash, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key_bytes, kSecretBytes),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  std::array<std::byte, kSecretBytes> out{};
  if (EVP_KDF_derive(work.get(), reinterpret_cast<unsigned char*>(out.data()), out.size(),
                     params) != 1) {
    return failure("HKDF");
  }
  Secret derived{out};
  wipe(out);
  return derived;
}

}  // namespace holdfast::secure
#endif
