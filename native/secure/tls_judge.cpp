#ifdef HOLDFAST_OPENSSL
#include "secure/tls_judge.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <utility>

namespace holdfast::secure {
namespace {

TlsJudge* judge_of(const SSL* session) { return static_cast<TlsJudge*>(SSL_get_app_data(session)); }

// A token's key as OpenSSL takes external keys: as a session of TLS 1.3, with the hash of SHA-256
// that such keys have if nothing else is agreed (RFC 8446, 4.2.11).
SSL_SESSION* session_of_key(SSL* session, const Secret& key) {
  constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  const SSL_CIPHER* suite = SSL_CIPHER_find(session, kAes128GcmSha256);
  Owned<SSL_SESSION> made(SSL_SESSION_new());
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.bytes().data());
  const bool sound = suite != nullptr && made != nullptr &&
                     SSL_SESSION_set1_master_key(made.get(), bytes, key.bytes().size()) == 1 &&
                     SSL_SESSION_set_cipher(made.get(), suite) == 1 &&
                     SSL_SESSION_set_protocol_version(made.get(), TLS1_3_VERSION) == 1;
  return sound ? made.release() : nullptr;
}

int offer_key(SSL* session, const EVP_MD*, const unsigned char** identity, std::size_t* size,
              SSL_SESSION** key) {
  TlsJudge* judge = judge_of(session);
  *key = judge->offer(session);
  *identity = reinterpret_cast<const unsigned char*>(judge->claims().data());
  *size = judge->claims().size();
  return *key != nullptr ? 1 : 0;
}

// Without a key the handshake goes on by certificates, and fails where this side has none.
int find_key(SSL* session, const unsigned char* identity, std::size_t size, SSL_SESSION** key) {
  *key = judge_of(session)->find(session, std::as_bytes(std::span(identity, size)));
  return 1;
}

void hear(const SSL* session, int where, int what) {
  const bool is_alert = where == SSL_CB_READ_ALERT;
  if (!is_alert || (what & 0xff) == SSL_AD_CLOSE_NOTIFY) return;
  judge_of(session)->hear_alert(SSL_alert_desc_string_long(what));
}

}  // namespace

int judge_certificate_of_session(X509_STORE_CTX* chain, void*) {
  const auto* session = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  return judge_of(session)->judge_certificate(chain) ? 1 : 0;
}

void note_secret_of_session(const SSL* session, const char* line) {
  judge_of(session)->hear_secret(line);
}

TlsJudge::TlsJudge(TlsMode mode, TlsTerms terms) : mode_(mode), terms_(std::move(terms)) {
  if (terms_.token == nullptr) return;
  peer_.claims = encode_claims(terms_.token->claims);
  key_ = terms_.token->key.copy();
  terms_.token = nullptr;
}

void TlsJudge::preside(SSL* session, bool is_server) {
  SSL_set_app_data(session, this);
  SSL_set_info_callback(session, hear);
  X509_VERIFY_PARAM_set_time(SSL_get0_param(session), static_cast<time_t>(terms_.now.value));
  const bool by_key = mode_ == TlsMode::kToken ||
                      (mode_ == TlsMode::kCertificate && is_server && terms_.key_of != nullptr);
  if (!by_key) return;
  if (is_server) {
    // A server that asks for certificates takes no key without one, though nothing is resumed.
    constexpr unsigned char kName[] = "holdfast";
    SSL_set_session_id_context(session, kName, sizeof kName);
    SSL_set_psk_find_session_callback(session, find_key);
  } else {
    SSL_set_psk_use_session_callback(session, offer_key);
  }
}

Status TlsJudge::settle(bool by_key) {
  if (mode_ == TlsMode::kToken && !by_key) {
    // A server in this mode has no certificate to go on with, and a client takes none. It is asked
    // all the same, since everything rests on it.
    return {Code::kAuthFailed, "the other side did not use the token's key"};
  }
  if (mode_ != TlsMode::kCertificate) return Status::ok();
  if (by_key) {
    peer_.certificate.reset();
  } else {
    // OpenSSL asks for the key of claims that it then does not use, for another hash.
    peer_.claims.clear();
  }
  if (by_key ? !peer_.claims.empty() : peer_.certificate.has_value()) return Status::ok();
  return {Code::kAuthFailed, "the other side has shown neither a certificate nor a token"};
}

// A label, the client's random bytes, and the secret (draft-ietf-tls-keylogfile). The other secrets
// are OpenSSL's own affair.
void TlsJudge::hear_secret(std::string_view line) {
  const auto text = line.substr(line.rfind(' ') + 1);
  if (line.starts_with("CLIENT_TRAFFIC_SECRET_0 ")) {
    secrets_.client = TrafficSecret::of_text(text);
  } else if (line.starts_with("SERVER_TRAFFIC_SECRET_0 ")) {
    secrets_.server = TrafficSecret::of_text(text);
  }
}

void TlsJudge::rest() {
  key_.reset();
  secrets_ = {};
  terms_ = {};
}

SSL_SESSION* TlsJudge::offer(SSL* session) {
  return key_.has_value() ? session_of_key(session, *key_) : nullptr;
}

SSL_SESSION* TlsJudge::find(SSL* session, std::span<const std::byte> claims) {
  auto key = terms_.key_of(claims);
  if (!key.is_ok()) {
    refuse(key.status());
    return nullptr;
  }
  peer_.claims.assign(claims.begin(), claims.end());
  return session_of_key(session, key.value());
}

bool TlsJudge::refuse(Status why) {
  verdict_ = Status{Code::kAuthFailed, why.message()};
  return false;
}

bool TlsJudge::judge_certificate(X509_STORE_CTX* chain) {
  switch (mode_) {
    case TlsMode::kToken:
      return refuse({Code::kAuthFailed, "the other side did not use the token's key"});
    case TlsMode::kIdentity: return judge_identity(chain);
    case TlsMode::kCertificate: return judge_authority(chain);
    case TlsMode::kServed: break;  // a server asks for none
  }
  return false;
}

// That the other side has the key, its signature of the handshake shows; the certificate says
// nothing else.
bool TlsJudge::judge_identity(X509_STORE_CTX* chain) {
  const auto key = public_key_of(X509_STORE_CTX_get0_cert(chain));
  if (!key.is_ok()) return refuse(key.status());
  const auto fingerprint = fingerprint_of(key.value());
  if (!fingerprint.is_ok()) return refuse(fingerprint.status());
  if (Status accepted = terms_.accepts(fingerprint.value()); !accepted.is_ok()) {
    return refuse(std::move(accepted));
  }
  peer_.fingerprint = fingerprint.value();
  return true;
}

bool TlsJudge::judge_authority(X509_STORE_CTX* chain) {
  if (X509_verify_cert(chain) != 1) {
    return refuse({Code::kAuthFailed,
                   "the other side's certificate is refused: " + refusal_text(chain, terms_.now)});
  }
  X509* leaf = X509_STORE_CTX_get0_cert(chain);
  if (!terms_.hosts.empty()) {
    if (Status serves = check_is_server(leaf, terms_.hosts); !serves.is_ok()) {
      X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
      return refuse(std::move(serves));
    }
  }
  std::vector<X509*> between;
  const STACK_OF(X509)* shown = X509_STORE_CTX_get0_untrusted(chain);
  between.reserve(static_cast<std::size_t>(std::max(sk_X509_num(shown), 0)));
  for (int i = 0; i < sk_X509_num(shown); ++i) between.push_back(sk_X509_value(shown, i));
  auto certificate = certificate_of(leaf, between);
  if (!certificate.is_ok()) return refuse(certificate.status());
  peer_.certificate = std::move(certificate).value();
  return true;
}

}  // namespace holdfast::secure
#endif
