// Sealer: what a process has that shares a secret with all others of its run. It seals the
// connections that it makes and answers: who does not know the secret gets no further than the
// first bytes.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "runtime/rendezvous/tls_seal.h"
#include "secure/tls_context.h"
#include "secure/token.h"

namespace holdfast::runtime {

// The secret of a file of which others can read nothing. kConfigError: what is wrong with the file,
// what is accepted, and what to do.
Result<secure::Secret> read_secret_file(const std::string& path);
// Writes a new, random secret to a file that is not there yet, for its owner alone.
Status make_secret_file(const std::string& path);

// It never changes: any thread, while one owns it.
class Sealer {
 public:
  static Result<std::shared_ptr<const Sealer>> open(const std::string& secret_file);

  // For a connection that this process makes, and for one that it answers.
  Result<std::unique_ptr<TlsSeal>> call() const;
  Result<std::unique_ptr<TlsSeal>> answer() const;

 private:
  Sealer(secure::KeyRing ring, secure::TlsContext context)
      : ring_(std::make_shared<const secure::KeyRing>(std::move(ring))),
        context_(std::move(context)) {}

  // Owners: this, and sessions whose handshake is under way.
  std::shared_ptr<const secure::KeyRing> ring_;
  secure::TlsContext context_;
};

}  // namespace holdfast::runtime
