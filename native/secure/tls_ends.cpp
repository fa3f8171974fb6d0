// What a session does by its other functions alone, whether the build has OpenSSL or not.
#include <algorithm>

#include "secure/tls_session.h"

namespace holdfast::secure {

std::vector<std::byte> TlsSession::take_outgoing() {
  const auto bytes = outgoing();
  std::vector<std::byte> taken(bytes.begin(), bytes.end());
  sent(taken.size());
  return taken;
}

std::size_t TlsSession::read(std::span<std::byte> to) {
  const auto bytes = readable();
  const std::size_t size = std::min(to.size(), bytes.size());
  std::copy_n(bytes.begin(), size, to.begin());
  consume(size);
  return size;
}

Result<Proof> TlsSession::prove(const Identity& identity) const {
  const auto bound = binding();
  if (!bound.is_ok()) return bound.status();
  return secure::prove(identity, bound.value(), side());
}

Status TlsSession::check_proof(std::span<const std::byte> proof,
                               const Fingerprint& expected) const {
  const auto bound = binding();
  if (!bound.is_ok()) return bound.status();
  const TlsSide other = side() == TlsSide::kClient ? TlsSide::kServer : TlsSide::kClient;
  return secure::check_proof(proof, expected, bound.value(), other);
}

}  // namespace holdfast::secure
