// What one side of TLS sessions has, made once for any number of them: the way in which both prove
// who they are, its own key and certificates, and everything that is not negotiated: TLS 1.3 alone,
// with AES-GCM or ChaCha20-Poly1305, over X25519 or P-256; no resumption, no tickets, no early
// data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "secure/certificate.h"
#include "secure/identity.h"
#include "secure/openssl.h"

namespace holdfast::secure {

enum class TlsMode : std::uint8_t {
  kToken,        // a token's key, with Diffie-Hellman
  kIdentity,     // self-signed certificates of keys that both know
  kCertificate,  // certificates of an authority
  kServed,       // a certificate of the server alone; who calls proves itself by what it says then
};

// PEM texts.
struct CertificateTexts {
  std::string certificates;  // one's own, then those between it and the authority
  std::string key;           // without a password
  std::string authorities;
  std::string revocations;  // lists of the authorities; "" for no look at any
};

// From when until when all of a context's revocation lists hold.
struct ListSpan {
  UnixTime from;
  UnixTime until;
};

// PEM texts of a server that asks for no certificate.
struct ServerTexts {
  std::string certificates;  // its own, then those between it and the authority
  std::string key;           // without a password
};

// The most bytes of the other side's certificates, and the longest chain.
inline constexpr long kMaxCertificateBytes = 16 << 10;
inline constexpr int kMaxChain = 4;
// A self-signed one of an Ed25519 key has a third of it.
inline constexpr long kMaxSelfSignedBytes = 1 << 10;

// It never changes: any thread may begin sessions of it, while one owns it. Sessions may outlive
// it.
class TlsContext {
 public:
  static Result<TlsContext> for_tokens();
  static Result<TlsContext> of_identity(const Identity& identity);
  static Result<TlsContext> of_certificates(const CertificateTexts& texts);
  // kCertificate, of clients only, which show none: PEM text of those whose word counts.
  static Result<TlsContext> of_authorities(const std::string& authorities);
  // Of servers only: nothing here asks who they are.
  static Result<TlsContext> of_server(const ServerTexts& texts);

  // kCertificate. Nothing: it has no lists.
  std::optional<ListSpan> lists() const { return shared_->lists; }
  // kCertificate: whether a caller's certificate, which may have been shown to another context, is
  // believed now. kAuthFailed, with the reason. Any thread, as the next.
  Status believe(const Certificate& callers, UnixTime now) const;
  // kCertificate: whether its lists have the certificate, or one between it and the authority. Who
  // asks looks whether the lists hold.
  bool revokes(const Certificate& callers) const;

  // OpenSSL's, for sessions.
  struct Shared {
    TlsMode mode = TlsMode::kToken;
    std::optional<ListSpan> lists{};
    Owned<ssl_ctx_st> context;
    Owned<bio_method_st> wire;
  };
  const std::shared_ptr<const Shared>& shared() const { return shared_; }

 private:
  explicit TlsContext(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {}

  // Owned by this context and its sessions.
  std::shared_ptr<const Shared> shared_;
};

}  // namespace holdfast::secure
