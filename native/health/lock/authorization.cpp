#include "health/lock/authorization.h"

#include <algorithm>

#include "base/base64.h"

namespace holdfast::health {
namespace {

bool is_scheme(std::string_view text, std::string_view lower_name) {
  return std::ranges::equal(text, lower_name, [](char c, char wanted) {
    return (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) == wanted;
  });
}

bool is_token_character(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || (c >= '0' && c <= '9') ||
         std::string_view("-._~+/").find(c) != std::string::npos;
}

}  // namespace

bool is_token_text(std::string_view text) {
  const std::size_t padding = std::min(text.find('='), text.size());
  return padding > 0 && text.size() <= kMaxCredentialBytes &&
         std::ranges::all_of(text.substr(0, padding), is_token_character) &&
         text.find_first_not_of('=', padding) == std::string_view::npos;
}

// A colon ends the name, so that it has none; control characters are excluded by the RFC.
bool is_user_text(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  return colon != std::string_view::npos && colon > 0 && text.size() <= kMaxCredentialBytes &&
         std::ranges::none_of(text, is_control);
}

std::optional<Authorization> parse_authorization(std::string_view value) {
  constexpr std::size_t kMostBytes = 16 + (kMaxCredentialBytes + 2) / 3 * 4;
  if (value.size() > kMostBytes) return std::nullopt;
  const std::size_t space = std::min(value.find(' '), value.size());
  const std::string_view scheme = value.substr(0, space);
  const std::size_t begin = std::min(value.find_first_not_of(' ', space), value.size());
  const std::string_view text = value.substr(begin);
  if (is_scheme(scheme, "bearer")) {
    if (!is_token_text(text)) return std::nullopt;
    return Authorization{AuthorizationScheme::kBearer, std::string(text)};
  }
  if (!is_scheme(scheme, "basic")) return std::nullopt;
  auto decoded = decode_base64(text);
  if (!decoded || !is_user_text(*decoded)) return std::nullopt;
  return Authorization{AuthorizationScheme::kBasic, std::move(*decoded)};
}

std::string authorization_value(const Authorization& authorization) {
  const bool bearer = authorization.scheme == AuthorizationScheme::kBearer;
  return bearer ? "Bearer " + authorization.text : "Basic " + encode_base64(authorization.text);
}

}  // namespace holdfast::health
