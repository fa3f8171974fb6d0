// Bytes as base32 (RFC 4648, 6) in lower case and without padding: a double click selects it, and
// it survives a change of case.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::secure {

std::string base32(std::span<const std::byte> bytes);

// Nothing, if a character is no digit or the text has another form than `base32` gives, but for
// the case.
std::optional<std::vector<std::byte>> parse_base32(std::string_view text);

}  // namespace holdfast::secure
