// ViewIssuer: signs views by a key that comes from the job's secret, the same wherever the secret
// is: in every life of its coordinator, in each standby, and in members that have it. While one
// secret replaces another, views that either has signed count. Who was let in by a token signs
// nothing, and checks by the keys that its coordinator told it.
// Why: docs/decisions/0164-a-view-is-signed-by-who-decides-it.md
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ft/notary.h"
#include "runtime/rendezvous/sealer.h"
#include "secure/identity.h"

namespace holdfast::runtime {

// It never changes: any thread, while one owns it.
class ViewIssuer final : public ft::Notary {
 public:
  // `files`: as SecretHolder::open().
  static Result<std::unique_ptr<ViewIssuer>> open(const std::string& files);
  // Of a process that has no secret.
  static std::unique_ptr<ViewIssuer> let_in_by(std::shared_ptr<const Sealer> sealer);

  ft::Bytes digest(std::span<const std::byte> text) override;
  ft::Bytes sign(std::span<const std::byte> text) override;
  bool check(std::span<const std::byte> text, std::span<const std::byte> signature) override;

 private:
  ViewIssuer(std::vector<secure::Identity> issuers, std::shared_ptr<const Sealer> sealer);
  std::vector<secure::PublicKey> keys() const;

  const std::vector<secure::Identity> issuers_;  // the first one signs
  const std::shared_ptr<const Sealer> sealer_;   // owners: also the runtime
};

}  // namespace holdfast::runtime
