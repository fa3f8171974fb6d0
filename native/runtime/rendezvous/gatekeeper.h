// Gatekeeper: the sealer of a coordinator that has a secret. It lets in who has the secret, and by
// tokens who has one that counts now, as a member of the token's run; and by certificates, if it
// has some itself, whom its roles name. It knows what is revoked, which keys have used each token
// or certificate, and which key has which member's id.
// Why: docs/decisions/0161-a-pass-names-a-key.md and
// docs/decisions/0162-certificates-open-the-same-door.md
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "health/lock/page_caller.h"
#include "runtime/certificates/certificate_gate.h"
#include "runtime/relay/relay_core.h"
#include "runtime/rendezvous/sealer.h"

namespace holdfast::runtime {

// A member that was let in by a token or a certificate.
struct Entrant {
  std::string run;
  secure::Serial token;  // or the certificate's id
  std::optional<secure::Certificate> certificate = {};
  std::uint32_t uses = secure::kAnyUses;  // of the token
  std::string unwelcome = {};             // why it may not stay; "": it may

  // "the token 5f..."
  std::string name() const {
    return certificate ? certificate->name() : "the token " + serial_text(token);
  }
  CallerFacts facts() const {
    if (!certificate) return {serial_text(token), run, ""};
    return {"", run, "", certificate->subject, certificate->number};
  }
};

// Any thread, while one owns it.
class Gatekeeper final : public Sealer {
 public:
  // One token or certificate lets in so many processes and member ids at most, whatever it says:
  // what is known of them is kept as long as this, so that nobody who floods makes it forget
  // another one.
  static constexpr std::uint32_t kMostUses = 4096;

  // `files`: as SecretHolder::open(). `certificates`: null: it takes none.
  static Result<std::shared_ptr<Gatekeeper>> open(
      const std::string& files, std::shared_ptr<CertificateGate> certificates = nullptr);

  // kUnsupported: a coordinator calls nobody.
  Result<std::unique_ptr<TlsSeal>> call(MemberId callee) const override;
  Result<std::unique_ptr<TlsSeal>> answer() const override;

  // From now on these tokens let nobody in. Who came in by one is unwelcome, and the caller's to
  // show out.
  void revoke(std::set<secure::Serial> serials);
  // These as well, whatever is revoked later.
  void revoke_for_good(const secure::Serial& serial);
  // What the holder of a token may do with the coordinator's pages: whether the text is a token of
  // this secret takes the same time for all of one length. Who has the token is told why it does
  // not count now, and nobody else.
  health::PageCaller page_caller(std::string_view text) const;
  // The run of a token that somebody has come in by; empty: nobody has.
  std::string run_of(const secure::Serial& token) const;
  // Looks whether the files of certificates have changed: who came in by one that does not count
  // any more is unwelcome. What is to be told to whoever operates this, each once. One thread at a
  // time.
  std::vector<std::string> look_at_certificates();
  // nullopt: it has the secret.
  std::optional<Entrant> entrant(MemberId member) const;

  // By what a relay at this coordinator lets members in. It may outlive this object.
  RelayGate relay_gate() const;

  // What all of a gate's connections ask.
  class Book;

 private:
  Gatekeeper(secure::TlsContext context, std::shared_ptr<Book> book,
             std::shared_ptr<CertificateGate> certificates);

  secure::TlsContext context_;                     // for tokens alone
  std::shared_ptr<CertificateGate> certificates_;  // owners: also the book
  std::shared_ptr<Book> book_;  // owners: also the papers of connections that are being made
};

}  // namespace holdfast::runtime
