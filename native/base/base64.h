// Base64 with padding (RFC 4648, 4): one spelling for each text, and nothing else is accepted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

std::string encode_base64(std::string_view bytes);
// nullopt: other characters, padding that is missing or too much, or bits that mean nothing.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace holdfast
