// Ed25519 signatures (RFC 8032). What is signed begins with what it is for, so that what one key
// has signed for one purpose is nothing for another.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "secure/identity.h"

namespace holdfast::secure {

inline constexpr std::size_t kSignatureBytes = 64;
using Signature = std::array<std::byte, kSignatureBytes>;

// Of `purpose`, a zero and `text`. Any thread.
Result<Signature> sign(const Identity& identity, std::string_view purpose,
                       std::span<const std::byte> text);
// Whether the key made it, for that purpose. Any thread.
bool is_signed(const PublicKey& key, std::string_view purpose, std::span<const std::byte> text,
               std::span<const std::byte> signature);

}  // namespace holdfast::secure
