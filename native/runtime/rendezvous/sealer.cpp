#include "runtime/rendezvous/sealer.h"

#include <sys/random.h>

#include <chrono>
#include <utility>

#include "runtime/rendezvous/secret_file.h"

namespace holdfast::runtime {
namespace {

using secure::KeyRing;
using secure::Secret;
using secure::TokenClaims;

// A process makes a token for each call. Clocks may differ by less.
constexpr std::int64_t kTokenSeconds = std::int64_t{7} * 24 * 3600;

}  // namespace

secure::UnixTime unix_now() {
  return {std::chrono::duration_cast<std::chrono::seconds>(
              std::chrono::system_clock::now().time_since_epoch())
              .count()};
}

Result<secure::Serial> random_serial() {
  secure::Serial serial;
  const auto got = ::getrandom(serial.bytes.data(), serial.bytes.size(), 0);
  if (got != static_cast<ssize_t>(serial.bytes.size())) {
    return Status{Code::kSystem, "this system has no random numbers"};
  }
  return serial;
}

Result<std::shared_ptr<const SecretHolder>> SecretHolder::open(const std::string& files) {
  auto secrets = read_secret_files(files);
  if (!secrets.is_ok()) return secrets.status();
  auto store_seal = StoreSeal::of(secrets.value());
  if (!store_seal.is_ok()) return store_seal.status();
  auto ring = KeyRing::make(std::move(secrets).value());
  if (!ring.is_ok()) return ring.status();
  auto context = secure::TlsContext::for_tokens();
  if (!context.is_ok()) return context.status();
  return std::shared_ptr<const SecretHolder>(new SecretHolder(
      std::move(ring).value(), std::move(context).value(), std::move(store_seal).value()));
}

Result<secure::Token> Sealer::token() const {
  return Status{
      Code::kUnsupported,
      "a relay lets nobody in by a certificate; accepted: option secret_file, or a token"};
}

Result<secure::Token> SecretHolder::token() const {
  auto serial = random_serial();
  if (!serial.is_ok()) return serial.status();
  TokenClaims claims;
  claims.serial = serial.value();
  claims.run = kHoldersRun;
  claims.not_after = {unix_now().value + kTokenSeconds};
  return ring_->mint(std::move(claims));
}

Result<std::unique_ptr<TlsSeal>> SecretHolder::call(MemberId) const {
  auto token = this->token();
  if (!token.is_ok()) return token.status();
  secure::TlsTerms terms;
  terms.now = unix_now();
  terms.token = &token.value();
  auto session = secure::TlsSession::client(context_, std::move(terms));
  if (!session.is_ok()) return session.status();
  return std::make_unique<TlsSeal>(std::move(session).value());
}

Result<std::unique_ptr<TlsSeal>> SecretHolder::answer() const {
  secure::TlsTerms terms;
  terms.now = unix_now();
  terms.key_of = [ring = ring_](std::span<const std::byte> bytes) -> Result<Secret> {
    auto claims = secure::parse_claims(bytes);
    if (!claims.is_ok()) return claims.status();
    return ring->admit(claims.value(), {kHoldersRun, unix_now()});
  };
  auto session = secure::TlsSession::server(context_, std::move(terms));
  if (!session.is_ok()) return session.status();
  return std::make_unique<TlsSeal>(std::move(session).value());
}

}  // namespace holdfast::runtime
