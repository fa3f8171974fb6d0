// What a session asks of the other side, and what it learns of it: the callbacks that OpenSSL makes
// while hands are shaken. For this folder; users give terms to a session and ask it for its peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "secure/certificate.h"
#include "secure/identity.h"
#include "secure/openssl.h"
#include "secure/records/traffic_key.h"
#include "secure/tls_context.h"
#include "secure/token.h"

namespace holdfast::secure {

// Who may be at the other end. A session calls its callbacks inside `feed` and no other function;
// what they refuse with is the session's failure, and is not told to the other side.
struct TlsTerms {
  // For dates of certificates.
  UnixTime now;
  // kToken, a client's; it is copied, and the key wiped once hands are shaken.
  const Token* token = nullptr;
  // kToken, a server's: the key of a token by its encoded claims. kCertificate, a server's: the
  // same, if callers may come by a token as well; who offers none needs a certificate.
  std::function<Result<Secret>(std::span<const std::byte> claims)> key_of{};
  // kIdentity: whether this key is the one that is expected here.
  std::function<Status(const Fingerprint& fingerprint)> accepts{};
  // kCertificate, a client's: the server's certificate must be made for servers, and for one of
  // these hosts. Names, or numeric addresses.
  std::vector<std::string> hosts{};
  // What one key encrypts before the next takes its place: a third of what AES-GCM allows (RFC
  // 8446, 5.5). Fewer in tests.
  std::uint64_t records_per_key = std::uint64_t{1} << 23;
};

// Who is at the other end of an open session.
struct TlsPeer {
  std::vector<std::byte> claims{};           // of a token: both know the key of these claims
  std::optional<Fingerprint> fingerprint{};  // kIdentity
  std::optional<Certificate> certificate{};  // kCertificate, if there are no claims
};

// What encrypts each side's records once a session is open.
struct TrafficSecrets {
  TrafficSecret client{};
  TrafficSecret server{};
};

// One session's; OpenSSL's object of the session points to it.
class TlsJudge {
 public:
  TlsJudge(TlsMode mode, TlsTerms terms);

  // Lets OpenSSL ask this judge about `session`, which it must outlive.
  void preside(ssl_st* session, bool is_server);

  // What was refused, if something was.
  const Status& verdict() const { return verdict_; }
  // The other side's alert, if one came ("" if not).
  const std::string& alert() const { return alert_; }
  const TlsPeer& peer() const { return peer_; }
  // Of a session that OpenSSL has opened, by a key that both know or without: whether that is what
  // its mode asks. What was only claimed of the other side is forgotten.
  Status settle(bool by_key);
  // What OpenSSL derived when hands were shaken; empty afterwards.
  TrafficSecrets take_secrets() { return std::move(secrets_); }
  // Forgets what only a handshake needs.
  void rest();

  // What OpenSSL calls. Each answers as OpenSSL wants it.
  bool judge_certificate(x509_store_ctx_st* chain);
  ssl_session_st* offer(ssl_st* session);
  ssl_session_st* find(ssl_st* session, std::span<const std::byte> claims);
  void hear_alert(std::string text) { alert_ = std::move(text); }
  void hear_secret(std::string_view line);
  std::span<const std::byte> claims() const { return peer_.claims; }

 private:
  bool refuse(Status why);
  bool judge_identity(x509_store_ctx_st* chain);
  bool judge_authority(x509_store_ctx_st* chain);

  TlsMode mode_;
  TlsTerms terms_;
  std::optional<Secret> key_;
  Status verdict_;
  std::string alert_;
  TlsPeer peer_;
  TrafficSecrets secrets_;
};

// OpenSSL's callback of a context: asks the judge of the session that shakes hands.
int judge_certificate_of_session(x509_store_ctx_st* chain, void* unused);
// Likewise: tells it a secret that OpenSSL has derived, as a line of a log of keys.
void note_secret_of_session(const ssl_st* session, const char* line);

}  // namespace holdfast::secure
