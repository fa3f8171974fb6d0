// PassHolder: the sealer of a process that was given a token or a certificate. Its coordinator lets
// it in by that and gives it a pass for its key; to the other members of its run it proves the key
// and shows the pass, and asks the same of them. So no two members share a key, and a member cannot
// pass for another. Why: docs/decisions/0161-a-pass-names-a-key.md and
// docs/decisions/0162-certificates-open-the-same-door.md
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/rendezvous/sealer.h"
#include "secure/identity.h"

namespace holdfast::runtime {

// By what a process comes to its coordinator. It never changes: any thread, while one owns it.
class WayIn {
 public:
  virtual ~WayIn() = default;
  // The run that it lets into.
  virtual const std::string& run() const = 0;
  virtual Result<secure::TlsSession> session() const = 0;
  // As Sealer::token().
  virtual Result<secure::Token> token() const;
  // What is shown once hands are shaken.
  virtual std::vector<std::byte> papers(const secure::Proof& proof) const = 0;
  // As Papers::explain().
  virtual Status explain(const Status& failure, bool is_open) const = 0;
};

// kConfigError for a token that lets nobody in as a member, now.
Result<std::unique_ptr<WayIn>> enter_by_token(secure::Token token);

// Any thread, while one owns it.
class PassHolder final : public Sealer {
 public:
  // `coordinator`: the id that this process calls its coordinator by.
  static Result<std::shared_ptr<const Sealer>> make(Result<std::unique_ptr<WayIn>> entry,
                                                    MemberId coordinator);

  Result<std::unique_ptr<TlsSeal>> call(MemberId callee) const override;
  Result<std::unique_ptr<TlsSeal>> answer() const override;
  std::vector<secure::PublicKey> issuers() const override;
  Result<secure::Token> token() const override { return entry_->token(); }

  // What one process has learnt from its coordinator; shared with the papers of its connections.
  struct HeldPass;

 private:
  PassHolder(std::unique_ptr<WayIn> entry, MemberId coordinator, secure::Identity identity,
             secure::TlsContext to_members);

  const std::shared_ptr<const WayIn> entry_;  // owners: also papers towards the coordinator
  const MemberId coordinator_;
  const std::shared_ptr<const secure::Identity> identity_;
  const secure::TlsContext to_members_;
  const std::shared_ptr<HeldPass> held_;
};

}  // namespace holdfast::runtime
