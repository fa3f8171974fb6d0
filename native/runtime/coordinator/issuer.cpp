#include "runtime/coordinator/issuer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "runtime/rendezvous/secret_file.h"
#include "secure/digest.h"
#include "secure/pass.h"
#include "secure/signature.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kViewPurpose = "holdfast view 1";

}  // namespace

ViewIssuer::ViewIssuer(std::vector<secure::Identity> issuers, std::shared_ptr<const Sealer> sealer)
    : issuers_(std::move(issuers)), sealer_(std::move(sealer)) {}

Result<std::unique_ptr<ViewIssuer>> ViewIssuer::open(const std::string& files) {
  auto secrets = read_secret_files(files);
  if (!secrets.is_ok()) return secrets.status();
  std::vector<secure::Identity> issuers;
  for (const secure::Secret& secret : secrets.value()) {
    auto issuer = secure::pass_issuer(secret);
    if (!issuer.is_ok()) return issuer.status();
    issuers.push_back(std::move(issuer).value());
  }
  return std::unique_ptr<ViewIssuer>(new ViewIssuer(std::move(issuers), nullptr));
}

std::unique_ptr<ViewIssuer> ViewIssuer::let_in_by(std::shared_ptr<const Sealer> sealer) {
  return std::unique_ptr<ViewIssuer>(new ViewIssuer({}, std::move(sealer)));
}

std::vector<secure::PublicKey> ViewIssuer::keys() const {
  if (sealer_) return sealer_->issuers();
  std::vector<secure::PublicKey> keys;
  for (const secure::Identity& issuer : issuers_) keys.push_back(issuer.public_key());
  return keys;
}

ft::Bytes ViewIssuer::digest(std::span<const std::byte> text) {
  static_assert(sizeof(secure::Sha256) == ft::kDigestBytes);
  const auto digest = secure::sha256(text);
  if (!digest.is_ok()) return {};
  return {digest.value().begin(), digest.value().end()};
}

ft::Bytes ViewIssuer::sign(std::span<const std::byte> text) {
  static_assert(ft::kDigestBytes + secure::kSignatureBytes <= ft::kMaxStatementBytes);
  if (issuers_.empty()) return {};
  const auto signature = secure::sign(issuers_.front(), kViewPurpose, text);
  if (!signature.is_ok()) return {};
  return {signature.value().begin(), signature.value().end()};
}

bool ViewIssuer::check(std::span<const std::byte> text, std::span<const std::byte> signature) {
  if (signature.size() != secure::kSignatureBytes) return false;
  return std::ranges::any_of(keys(), [&](const secure::PublicKey& key) {
    return secure::is_signed(key, kViewPurpose, text, signature);
  });
}

}  // namespace holdfast::runtime
