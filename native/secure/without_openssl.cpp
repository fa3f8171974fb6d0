// What a build without OpenSSL answers instead. Each says so.
#ifndef HOLDFAST_OPENSSL
#include <utility>

#include "secure/digest.h"
#include "secure/identity.h"
#include "secure/openssl.h"
#include "secure/proof.h"

namespace holdfast::secure {

void prepare_openssl() {}
std::string openssl_reason() { return ""; }

// There are no objects to free.
void OpensslFree::operator()(bio_st*) const {}
void OpensslFree::operator()(evp_kdf_st*) const {}
void OpensslFree::operator()(evp_kdf_ctx_st*) const {}
void OpensslFree::operator()(evp_md_ctx_st*) const {}
void OpensslFree::operator()(evp_pkey_st*) const {}
void OpensslFree::operator()(ssl_ctx_st*) const {}
void OpensslFree::operator()(ssl_session_st*) const {}
void OpensslFree::operator()(ssl_st*) const {}
void OpensslFree::operator()(X509_crl_st*) const {}
void OpensslFree::operator()(x509_st*) const {}

Result<Sha256> sha256(std::span<const std::byte>) { return lacks_openssl(); }
Result<Secret> derive(const Secret&, std::string_view, std::span<const std::byte>) {
  return lacks_openssl();
}

Result<Fingerprint> fingerprint_of(const PublicKey&) { return lacks_openssl(); }
Result<PublicKey> public_key_of(x509_st*) { return lacks_openssl(); }
Result<Identity> Identity::generate() { return lacks_openssl(); }

Result<Proof> prove(const Identity&, const Binding&, TlsSide) { return lacks_openssl(); }
Status check_proof(std::span<const std::byte>, const Fingerprint&, const Binding&, TlsSide) {
  return lacks_openssl();
}

}  // namespace holdfast::secure
#endif
