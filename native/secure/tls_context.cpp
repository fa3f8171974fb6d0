#ifdef HOLDFAST_OPENSSL
#include "secure/tls_context.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>

#include "secure/tls_judge.h"
#include "secure/tls_wire.h"

namespace holdfast::secure {
namespace {

constexpr char kGroups[] = "X25519:P-256";
constexpr char kSuites[] =
    "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
// A token's key has the hash SHA-256, and no other suite may use it.
constexpr char kTokenSuites[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr char kIdentitySignatures[] = "ed25519";
// The last two are for certificates; TLS 1.3 signs no handshake with them.
constexpr char kSignatures[] =
    "ed25519:ecdsa_secp256r1_sha256:ecdsa_secp384r1_sha384:rsa_pss_rsae_sha256:"
    "rsa_pss_rsae_sha384:rsa_pss_rsae_sha512:rsa_pkcs1_sha256:rsa_pkcs1_sha384";
// 112 bits and more: RSA of 2048 bits, and no SHA-1.
constexpr int kSecurityLevel = 2;

constexpr std::uint64_t kWanted = SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                  SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE;
// What a system's settings might have switched on.
constexpr std::uint64_t kUnwanted = SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_IGNORE_UNEXPECTED_EOF |
                                    SSL_OP_ALLOW_UNSAFE_LEGACY_RENEGOTIATION |
                                    SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_NO_ANTI_REPLAY;

Status failure(const std::string& what) {
  const std::string reason = openssl_reason();
  return {Code::kConfigError, what + (reason.empty() ? "" : ": " + reason)};
}

bool restrict_to_ours(SSL_CTX* context, TlsMode mode) {
  SSL_CTX_set_options(context, kWanted);
  SSL_CTX_clear_options(context, kUnwanted);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_cert_list(
      context, mode == TlsMode::kCertificate ? kMaxCertificateBytes : kMaxSelfSignedBytes);
  SSL_CTX_set_security_level(context, kSecurityLevel);
  const int wanted = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  SSL_CTX_set_verify(context, mode == TlsMode::kServed ? SSL_VERIFY_NONE : wanted, nullptr);
  SSL_CTX_set_verify_depth(context, kMaxChain);
  SSL_CTX_set_cert_verify_callback(context, judge_certificate_of_session, nullptr);
  SSL_CTX_set_keylog_callback(context, note_secret_of_session);
  const char* suites = mode == TlsMode::kToken ? kTokenSuites : kSuites;
  const bool by_authority = mode == TlsMode::kCertificate || mode == TlsMode::kServed;
  const char* signatures = by_authority ? kSignatures : kIdentitySignatures;
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_max_early_data(context, 0) == 1 &&
         SSL_CTX_set_recv_max_early_data(context, 0) == 1 &&
         SSL_CTX_set_ciphersuites(context, suites) == 1 &&
         SSL_CTX_set1_groups_list(context, kGroups) == 1 &&
         SSL_CTX_set1_sigalgs_list(context, signatures) == 1 &&
         SSL_CTX_set1_client_sigalgs_list(context, signatures) == 1;
}

Result<TlsContext::Shared> make_shared_part(TlsMode mode) {
  prepare_openssl();
  ERR_clear_error();
  TlsContext::Shared made;
  made.mode = mode;
  made.context.reset(SSL_CTX_new(TLS_method()));
  made.wire = make_wire_method();
  if (made.context == nullptr || made.wire == nullptr ||
      !restrict_to_ours(made.context.get(), mode)) {
    return failure("OpenSSL cannot be set up for TLS 1.3");
  }
  return made;
}

// ---- PEM texts

// An encrypted key would be asked for at the terminal otherwise.
int no_password(char*, int, int, void*) { return -1; }

Owned<BIO> bytes_of(const std::string& text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Whether what stopped a row of readings is the end of the text.
bool ended_well() {
  const unsigned long error = ERR_peek_last_error();
  const bool ended = error == 0 || (ERR_GET_LIB(error) == ERR_LIB_PEM &&
                                    ERR_GET_REASON(error) == PEM_R_NO_START_LINE);
  if (ended) ERR_clear_error();
  return ended;
}

Status add_own_certificates(SSL_CTX* context, const std::string& text) {
  const auto in = bytes_of(text);
  int count = 0;
  while (true) {
    Owned<X509> next(in == nullptr ? nullptr
                                   : PEM_read_bio_X509(in.get(), nullptr, no_password, nullptr));
    if (next == nullptr) break;
    const bool taken = count == 0 ? SSL_CTX_use_certificate(context, next.get()) == 1
                                  : SSL_CTX_add1_chain_cert(context, next.get()) == 1;
    if (!taken) return failure("the certificate cannot be used");
    if (++count > kMaxChain) return failure("the certificate has a longer chain than is allowed");
  }
  if (!ended_well() || count == 0) return failure("the certificate is no PEM text of certificates");
  return Status::ok();
}

Status set_key(SSL_CTX* context, const std::string& text) {
  const auto in = bytes_of(text);
  const Owned<EVP_PKEY> key(
      in == nullptr ? nullptr : PEM_read_bio_PrivateKey(in.get(), nullptr, no_password, nullptr));
  // OpenSSL's reasons for a key are left out: they may tell of its bytes.
  if (key == nullptr) {
    openssl_reason();
    return failure("the key is no PEM text of a private key, or it has a password");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    openssl_reason();
    return failure("the key is not the certificate's");
  }
  return Status::ok();
}

Status add_authorities(SSL_CTX* context, const std::string& text) {
  const auto in = bytes_of(text);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  int count = 0;
  while (true) {
    const Owned<X509> next(
        in == nullptr ? nullptr : PEM_read_bio_X509(in.get(), nullptr, no_password, nullptr));
    if (next == nullptr) break;
    if (X509_STORE_add_cert(store, next.get()) != 1) return failure("an authority cannot be used");
    ++count;
  }
  if (!ended_well() || count == 0)
    return failure("the authorities are no PEM text of certificates");
  return Status::ok();
}

// A list by a name of an authority here must be that authority's. Others' may be of those between
// it and a certificate; they are looked at when one is shown.
Status check_signed(X509_STORE* store, X509_CRL* list) {
  const Owned<X509_STORE_CTX> search(X509_STORE_CTX_new());
  if (search == nullptr || X509_STORE_CTX_init(search.get(), store, nullptr, nullptr) != 1) {
    return failure("the revocations cannot be looked at");
  }
  STACK_OF(X509)* named = X509_STORE_CTX_get1_certs(search.get(), X509_CRL_get_issuer(list));
  bool any = false;
  bool sound = false;
  for (int i = 0; i < sk_X509_num(named); ++i) {
    any = true;
    EVP_PKEY* key = X509_get0_pubkey(sk_X509_value(named, i));
    sound = sound || (key != nullptr && X509_CRL_verify(list, key) == 1);
  }
  sk_X509_pop_free(named, X509_free);
  openssl_reason();
  if (!any || sound) return Status::ok();
  return {Code::kConfigError, "a revocation list is not signed by the authority that it names"};
}

UnixTime list_time(const ASN1_TIME* time, UnixTime missing) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return missing;
  return {static_cast<std::int64_t>(::timegm(&parts))};
}

void note_span(std::optional<ListSpan>& all, const X509_CRL* list) {
  constexpr UnixTime kNever{std::numeric_limits<std::int64_t>::max()};
  const ListSpan own{list_time(X509_CRL_get0_lastUpdate(list), {}),
                     list_time(X509_CRL_get0_nextUpdate(list), kNever)};
  all = all ? ListSpan{std::max(all->from, own.from), std::min(all->until, own.until)} : own;
}

Result<std::optional<ListSpan>> add_revocations(SSL_CTX* context, const std::string& text) {
  std::optional<ListSpan> span;
  if (text.empty()) return span;
  const auto in = bytes_of(text);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  int count = 0;
  while (true) {
    const Owned<X509_CRL> next(
        in == nullptr ? nullptr : PEM_read_bio_X509_CRL(in.get(), nullptr, no_password, nullptr));
    if (next == nullptr) break;
    if (X509_STORE_add_crl(store, next.get()) != 1) return failure("a revocation list is unusable");
    TRY(check_signed(store, next.get()));
    note_span(span, next.get());
    ++count;
  }
  if (!ended_well() || count == 0) return failure("the revocations are no PEM text of lists");
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  return span;
}

// Looks at a chain as a handshake does. `now`: nothing: at no dates. Returns OpenSSL's number of
// what is wrong, and why in words.
std::pair<int, std::string> verified(SSL_CTX* context, const CertificateChain& chain,
                                     std::optional<UnixTime> now) {
  const Owned<X509_STORE_CTX> look(X509_STORE_CTX_new());
  STACK_OF(X509)* between = sk_X509_new_null();
  for (const auto& each : chain.between) sk_X509_push(between, each.get());
  std::pair<int, std::string> result{X509_V_ERR_OUT_OF_MEM, "out of memory"};
  if (look != nullptr && X509_STORE_CTX_init(look.get(), SSL_CTX_get_cert_store(context),
                                             chain.leaf.get(), between) == 1) {
    X509_STORE_CTX_set_default(look.get(), "ssl_client");
    X509_VERIFY_PARAM* terms = X509_STORE_CTX_get0_param(look.get());
    X509_VERIFY_PARAM_set_auth_level(terms, kSecurityLevel);
    X509_VERIFY_PARAM_set_depth(terms, kMaxChain);
    if (now) X509_VERIFY_PARAM_set_time(terms, static_cast<time_t>(now->value));
    if (!now) X509_VERIFY_PARAM_set_flags(terms, X509_V_FLAG_NO_CHECK_TIME);
    const bool sound = X509_verify_cert(look.get()) == 1;
    result = sound ? std::pair(X509_V_OK, std::string())
                   : std::pair(X509_STORE_CTX_get_error(look.get()),
                               refusal_text(look.get(), now.value_or(UnixTime{})));
  }
  sk_X509_free(between);
  openssl_reason();
  return result;
}

}  // namespace

Result<TlsContext> TlsContext::for_tokens() {
  auto made = make_shared_part(TlsMode::kToken);
  if (!made.is_ok()) return made.status();
  return TlsContext(std::make_shared<const Shared>(std::move(made).value()));
}

Result<TlsContext> TlsContext::of_identity(const Identity& identity) {
  auto made = make_shared_part(TlsMode::kIdentity);
  if (!made.is_ok()) return made.status();
  SSL_CTX* context = made.value().context.get();
  if (SSL_CTX_use_certificate(context, identity.certificate()) != 1 ||
      SSL_CTX_use_PrivateKey(context, identity.key()) != 1) {
    return failure("the key of this process cannot be used for TLS");
  }
  return TlsContext(std::make_shared<const Shared>(std::move(made).value()));
}

Result<TlsContext> TlsContext::of_certificates(const CertificateTexts& texts) {
  auto made = make_shared_part(TlsMode::kCertificate);
  if (!made.is_ok()) return made.status();
  SSL_CTX* context = made.value().context.get();
  TRY(add_own_certificates(context, texts.certificates));
  TRY(set_key(context, texts.key));
  TRY(add_authorities(context, texts.authorities));
  auto lists = add_revocations(context, texts.revocations);
  if (!lists.is_ok()) return lists.status();
  made.value().lists = lists.value();
  return TlsContext(std::make_shared<const Shared>(std::move(made).value()));
}

Result<TlsContext> TlsContext::of_authorities(const std::string& authorities) {
  auto made = make_shared_part(TlsMode::kCertificate);
  if (!made.is_ok()) return made.status();
  TRY(add_authorities(made.value().context.get(), authorities));
  return TlsContext(std::make_shared<const Shared>(std::move(made).value()));
}

Result<TlsContext> TlsContext::of_server(const ServerTexts& texts) {
  auto made = make_shared_part(TlsMode::kServed);
  if (!made.is_ok()) return made.status();
  SSL_CTX* context = made.value().context.get();
  TRY(add_own_certificates(context, texts.certificates));
  TRY(set_key(context, texts.key));
  return TlsContext(std::make_shared<const Shared>(std::move(made).value()));
}

Status TlsContext::believe(const Certificate& callers, UnixTime now) const {
  const auto [error, why] = verified(shared_->context.get(), *callers.chain, now);
  if (error == X509_V_OK) return Status::ok();
  return {Code::kAuthFailed, "the certificate is refused: " + why};
}

bool TlsContext::revokes(const Certificate& callers) const {
  if (!shared_->lists) return false;
  return verified(shared_->context.get(), *callers.chain, std::nullopt).first ==
         X509_V_ERR_CERT_REVOKED;
}

}  // namespace holdfast::secure
#endif
