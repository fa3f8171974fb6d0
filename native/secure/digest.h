// SHA-256, and keys derived from a secret: HKDF-SHA256 (RFC 5869) without a salt.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "secure/secret.h"

namespace holdfast::secure {

using Sha256 = std::array<std::byte, 32>;

// Any thread.
Result<Sha256> sha256(std::span<const std::byte> bytes);

// The key of `label` and `context`: another label gives an unrelated key. Any thread.
Result<Secret> derive(const Secret& secret, std::string_view label,
                      std::span<const std::byte> context = {});

}  // namespace holdfast::secure
