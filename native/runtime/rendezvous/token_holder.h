// TokenHolder: the sealer of a process that was given a token. Its coordinator lets it in by the
// token and gives it a pass for its key; to the other members of its run it proves the key and
// shows the pass, and asks the same of them. So no two members share a key, and a member cannot
// pass for another. Why: docs/decisions/0161-a-pass-names-a-key.md
#pragma once

#include <memory>
#include <string>

#include "runtime/rendezvous/sealer.h"
#include "secure/identity.h"

namespace holdfast::runtime {

// Any thread, while one owns it.
class TokenHolder final : public Sealer {
 public:
  // `coordinator`: the id that this process calls its coordinator by. kConfigError for a token that
  // lets nobody in as a member, now.
  static Result<std::shared_ptr<const Sealer>> make(secure::Token token, MemberId coordinator);

  Result<std::unique_ptr<TlsSeal>> call(MemberId callee) const override;
  Result<std::unique_ptr<TlsSeal>> answer() const override;

  // What one process has learnt from its coordinator; shared with the papers of its connections.
  struct HeldPass;

 private:
  TokenHolder(secure::Token token, MemberId coordinator, secure::Identity identity,
              secure::TlsContext to_coordinator, secure::TlsContext to_members);

  const secure::Token token_;
  const MemberId coordinator_;
  const std::shared_ptr<const secure::Identity> identity_;
  const secure::TlsContext to_coordinator_;
  const secure::TlsContext to_members_;
  const std::shared_ptr<HeldPass> held_;
};

}  // namespace holdfast::runtime
