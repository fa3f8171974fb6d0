// Gatekeeper: the sealer of a coordinator that has a secret. It lets in who has the secret, and by
// tokens who has one that counts now, as a member of the token's run: it knows which tokens are
// revoked, which keys have used each, and which key has which member's id. Why:
// docs/decisions/0161-a-pass-names-a-key.md
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "health/lock/page_caller.h"
#include "runtime/rendezvous/sealer.h"

namespace holdfast::runtime {

// A member that was let in by a token.
struct Entrant {
  std::string run;
  secure::Serial token;
  std::uint32_t uses = secure::kAnyUses;  // of the token
};

// Any thread, while one owns it.
class Gatekeeper final : public Sealer {
 public:
  // One token lets in so many processes and member ids at most, whatever it says: what is known of
  // them is kept as long as this, so that nobody who floods makes it forget another one.
  static constexpr std::uint32_t kMostUses = 4096;

  // `files`: as SecretHolder::open().
  static Result<std::shared_ptr<Gatekeeper>> open(const std::string& files);

  // kUnsupported: a coordinator calls nobody.
  Result<std::unique_ptr<TlsSeal>> call(MemberId callee) const override;
  Result<std::unique_ptr<TlsSeal>> answer() const override;

  // From now on these tokens let nobody in. Who came in by one is the caller's to show out.
  void revoke(std::set<secure::Serial> serials);
  // These as well, whatever is revoked later.
  void revoke_for_good(const secure::Serial& serial);
  // What the holder of a token may do with the coordinator's pages: whether the text is a token of
  // this secret takes the same time for all of one length. Who has the token is told why it does
  // not count now, and nobody else.
  health::PageCaller page_caller(std::string_view text) const;
  // The run of a token that somebody has come in by; empty: nobody has.
  std::string run_of(const secure::Serial& token) const;
  // nullopt: it has the secret.
  std::optional<Entrant> entrant(MemberId member) const;

  // What all of a gate's connections ask.
  class Book;

 private:
  Gatekeeper(secure::TlsContext context, std::shared_ptr<Book> book);

  secure::TlsContext context_;
  std::shared_ptr<Book> book_;  // owners: also the papers of connections that are being made
};

}  // namespace holdfast::runtime
