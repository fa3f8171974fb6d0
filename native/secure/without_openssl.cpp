// What a build without OpenSSL answers instead. Each says so.
#ifndef HOLDFAST_OPENSSL
#include <utility>

#include "secure/certificate.h"
#include "secure/digest.h"
#include "secure/identity.h"
#include "secure/openssl.h"
#include "secure/proof.h"
#include "secure/tls_context.h"
#include "secure/tls_session.h"

namespace holdfast::secure {

void prepare_openssl() {}
std::string openssl_reason() { return ""; }

// There are no objects to free.
void OpensslFree::operator()(bio_method_st*) const {}
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
void OpensslFree::operator()(x509_store_ctx_st*) const {}
void OpensslFree::operator()(evp_cipher_ctx_st*) const {}

Result<Sha256> sha256(std::span<const std::byte>) { return lacks_openssl(); }
Result<Secret> derive(const Secret&, std::string_view, std::span<const std::byte>) {
  return lacks_openssl();
}

Result<Fingerprint> fingerprint_of(const PublicKey&) { return lacks_openssl(); }
Result<PublicKey> public_key_of(x509_st*) { return lacks_openssl(); }
Result<Identity> Identity::generate() { return lacks_openssl(); }
Result<Identity> Identity::of_seed(const Secret&) { return lacks_openssl(); }

Result<Signature> sign(const Identity&, std::string_view, std::span<const std::byte>) {
  return lacks_openssl();
}
bool is_signed(const PublicKey&, std::string_view, std::span<const std::byte>,
               std::span<const std::byte>) {
  return false;
}

Result<Fingerprint> fingerprint_in(std::span<const std::byte>) { return lacks_openssl(); }
Result<Proof> prove(const Identity&, const Binding&, TlsSide) { return lacks_openssl(); }
Status check_proof(std::span<const std::byte>, const Fingerprint&, const Binding&, TlsSide) {
  return lacks_openssl();
}

Result<Certificate> certificate_of(x509_st*, const std::vector<x509_st*>&) {
  return lacks_openssl();
}
Result<Certificate> certificate_in(const std::string&) { return lacks_openssl(); }
std::string refusal_text(x509_store_ctx_st*, UnixTime) { return lacks_openssl().message(); }
Status check_is_server(x509_st*, const std::vector<std::string>&) { return lacks_openssl(); }
Status check_serves(const Certificate&) { return lacks_openssl(); }

Status TlsContext::believe(const Certificate&, UnixTime) const { return lacks_openssl(); }
bool TlsContext::revokes(const Certificate&) const { return false; }
Result<TlsContext> TlsContext::for_tokens() { return lacks_openssl(); }
Result<TlsContext> TlsContext::of_identity(const Identity&) { return lacks_openssl(); }
Result<TlsContext> TlsContext::of_certificates(const CertificateTexts&) { return lacks_openssl(); }
Result<TlsContext> TlsContext::of_server(const ServerTexts&) { return lacks_openssl(); }
Result<TlsContext> TlsContext::of_authorities(const std::string&) { return lacks_openssl(); }

// No suite, and so no key.
const TrafficSuite* traffic_suite(std::uint16_t) { return nullptr; }
Result<TrafficKey> TrafficKey::make(const TrafficSuite&, TrafficSecret, KeyUse) {
  return lacks_openssl();
}
Status TrafficKey::advance() { return lacks_openssl(); }
bool TrafficKey::seal(std::span<const std::byte>, std::span<const std::byte>, std::byte,
                      std::span<std::byte>) {
  return false;
}
bool TrafficKey::open(std::span<const std::byte>, std::span<const std::byte>, std::span<std::byte>,
                      std::byte&) {
  return false;
}

// No context is ever made, and so no session.
struct TlsSession::Core {};
TlsSession::TlsSession(std::unique_ptr<Core> core) : core_(std::move(core)) {}
TlsSession::~TlsSession() = default;
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;
Result<TlsSession> TlsSession::client(const TlsContext&, TlsTerms) { return lacks_openssl(); }
Result<TlsSession> TlsSession::server(const TlsContext&, TlsTerms) { return lacks_openssl(); }
void TlsSession::feed(std::span<const std::byte>) {}
TlsFed TlsSession::feed(std::span<const std::byte>, std::span<std::byte>) { return {}; }
void TlsSession::feed_end() {}
Status TlsSession::write(std::span<const std::byte>) { return lacks_openssl(); }
void TlsSession::close() {}
std::span<const std::byte> TlsSession::outgoing() const { return {}; }
void TlsSession::sent(std::size_t) {}
std::span<const std::byte> TlsSession::readable() const { return {}; }
void TlsSession::consume(std::size_t) {}
TlsState TlsSession::state() const { return TlsState::kFailed; }
Status TlsSession::failure() const { return lacks_openssl(); }
const TlsPeer& TlsSession::peer() const {
  check_failed("a session without OpenSSL", __FILE__, __LINE__);
}
std::string TlsSession::suite() const { return ""; }
Result<Binding> TlsSession::binding() const { return lacks_openssl(); }
TlsSide TlsSession::side() const { return TlsSide::kClient; }

}  // namespace holdfast::secure
#endif
