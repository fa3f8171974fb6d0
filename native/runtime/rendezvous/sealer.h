// Sealers: what seals the connections that a process makes and answers. Which one a process has
// depends on what it was given: the job's secret (SecretHolder), a token (pass_holder.h), or, as a
// coordinator, the secret that tokens come from (gatekeeper.h). Who has nothing gets no further
// than the first bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "runtime/rendezvous/sealed_store.h"
#include "runtime/rendezvous/tls_seal.h"
#include "secure/identity.h"
#include "secure/tls_context.h"
#include "secure/token.h"

namespace holdfast::runtime {

class Sealer {
 public:
  virtual ~Sealer() = default;

  // For a connection to `callee` that this process makes, and for one that it answers. Any thread.
  virtual Result<std::unique_ptr<TlsSeal>> call(MemberId callee) const = 0;
  virtual Result<std::unique_ptr<TlsSeal>> answer() const = 0;
  // By what a relay lets this process in. kUnsupported: it has no secret and no token. Any thread.
  virtual Result<secure::Token> token() const;
  // Whose signatures count, as the process was told that let this one in. Any thread.
  virtual std::vector<secure::PublicKey> issuers() const { return {}; }
};

// The run of the tokens that holders of the secret make for themselves. They are of one party and
// may enter any run: no token that is given to others has it.
inline constexpr const char* kHoldersRun = "holders-of-the-secret";

// Seconds since 1970. Any thread.
secure::UnixTime unix_now();
// kSystem if this system has no random numbers. Any thread.
Result<secure::Serial> random_serial();

// It never changes: any thread, while one owns it.
class SecretHolder final : public Sealer {
 public:
  // `files`: of the secret, or of two while one replaces the other (secret_file.h).
  static Result<std::shared_ptr<const SecretHolder>> open(const std::string& files);

  // For the stores in which holders meet.
  const StoreSeal& store_seal() const { return *store_seal_; }
  Result<std::unique_ptr<TlsSeal>> call(MemberId callee) const override;
  Result<std::unique_ptr<TlsSeal>> answer() const override;
  Result<secure::Token> token() const override;

 private:
  SecretHolder(secure::KeyRing ring, secure::TlsContext context,
               std::shared_ptr<const StoreSeal> store_seal)
      : ring_(std::make_shared<const secure::KeyRing>(std::move(ring))),
        context_(std::move(context)),
        store_seal_(std::move(store_seal)) {}

  // Owners: this, and sessions whose handshake is under way.
  std::shared_ptr<const secure::KeyRing> ring_;
  secure::TlsContext context_;
  std::shared_ptr<const StoreSeal> store_seal_;
};

}  // namespace holdfast::runtime
