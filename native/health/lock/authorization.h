// The header Authorization as a reader of pages sends it (RFC 9110, 11.6.2): a bearer token (RFC
// 6750), or a user's name and password (RFC 7617). The parser is pure and total; whose credential
// it is, credentials.h knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::health {

// Of a token, or of user, colon and password. A token of 32 random bytes has 64 hex digits.
inline constexpr std::size_t kMaxCredentialBytes = 256;

enum class AuthorizationScheme : std::uint8_t { kBearer = 1, kBasic = 2 };

struct Authorization {
  AuthorizationScheme scheme = AuthorizationScheme::kBearer;
  std::string text;  // the token, or "user:password"
};

// `value`: the header's. nullopt: it is no such credential, or too long.
std::optional<Authorization> parse_authorization(std::string_view value);
// The header's value for it.
std::string authorization_value(const Authorization& authorization);

// Whether a text can be a token ("token68"), and a user's name with a password.
bool is_token_text(std::string_view text);
bool is_user_text(std::string_view text);

}  // namespace holdfast::health
