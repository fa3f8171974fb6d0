#include "health/json.h"

#include <cmath>
#include <cstdint>

#include "base/metrics/text.h"

namespace holdfast::health {
namespace {

// Length in bytes of the UTF-8 character at the front (RFC 3629, without overlong forms and
// surrogates); 0 when there is none.
std::size_t character_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto follows = [&](std::size_t i, int least, int most) {
    return at(i) >= least && at(i) <= most;
  };
  const std::uint8_t first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1, 0x80, 0xbf) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const int least = first == 0xe0 ? 0xa0 : 0x80;
    const int most = first == 0xed ? 0x9f : 0xbf;
    return follows(1, least, most) && follows(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const int least = first == 0xf0 ? 0x90 : 0x80;
    const int most = first == 0xf4 ? 0x8f : 0xbf;
    const bool rest = follows(2, 0x80, 0xbf) && follows(3, 0x80, 0xbf);
    return follows(1, least, most) && rest ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string hex_digits(std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(value >> shift) & 15];
  return text;
}

std::string json_text(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (bytes == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      out += "\\u00";
      out += kDigits[c >> 4];
      out += kDigits[c & 15];
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out + "\"";
}

void JsonWriter::begin(std::string_view name) {
  if (!first_) text_ += ',';
  first_ = false;
  if (!name.empty()) text_ += json_text(name) + ":";
}

void JsonWriter::open(std::string_view name, char bracket) {
  begin(name);
  text_ += bracket;
  first_ = true;
}

void JsonWriter::close(char bracket) {
  text_ += bracket;
  first_ = false;
}

void JsonWriter::text(std::string_view name, std::string_view value) {
  begin(name);
  text_ += json_text(value);
}

void JsonWriter::number(std::string_view name, double value) {
  if (!std::isfinite(value)) return nothing(name);
  begin(name);
  text_ += metrics::number_text(value);
}

void JsonWriter::number(std::string_view name, std::uint64_t value) {
  begin(name);
  text_ += std::to_string(value);
}

void JsonWriter::flag(std::string_view name, bool value) {
  begin(name);
  text_ += value ? "true" : "false";
}

void JsonWriter::nothing(std::string_view name) {
  begin(name);
  text_ += "null";
}

}  // namespace holdfast::health
