// Who joins by a token shows which key it has: TLS 1.3 with a pre-shared key carries no
// certificates (RFC 8446, 4.4.2), so a process signs what this one session derived (RFC 5705's
// exporter), with its side. A proof holds in its own session and direction only. Why:
// docs/decisions/0153-a-token-is-a-derived-key.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "secure/identity.h"
#include "secure/signature.h"

namespace holdfast::secure {

enum class TlsSide : std::uint8_t { kClient, kServer };

inline constexpr std::size_t kProofBytes = kPublicKeyBytes + kSignatureBytes;
// The public key, and the signature by it.
using Proof = std::array<std::byte, kProofBytes>;
// What a session exports: the same on both of its sides, and in no other session.
using Binding = std::array<std::byte, 32>;

// The key that a proof is of. Any thread.
Result<Fingerprint> fingerprint_in(std::span<const std::byte> proof);
// Any thread.
Result<Proof> prove(const Identity& identity, const Binding& binding, TlsSide prover);
Status check_proof(std::span<const std::byte> proof, const Fingerprint& expected,
                   const Binding& binding, TlsSide prover);

}  // namespace holdfast::secure
