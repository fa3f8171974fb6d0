#include "secure/base32.h"

#include <cstdint>

namespace holdfast::secure {
namespace {

constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";

// -1 for what is no digit.
int value_of(char c) {
  if (c >= 'a' && c <= 'z') return c - 'a';
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= '2' && c <= '7') return c - '2' + 26;
  return -1;
}

}  // namespace

std::string base32(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((8 * bytes.size() + 4) / 5);
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const std::byte b : bytes) {
    bits = bits << 8 | std::to_integer<std::uint32_t>(b);
    for (held += 8; held >= 5; held -= 5) text += kAlphabet[bits >> (held - 5) & 31];
  }
  if (held > 0) text += kAlphabet[bits << (5 - held) & 31];
  return text;
}

std::optional<std::vector<std::byte>> parse_base32(std::string_view text) {
  std::vector<std::byte> bytes;
  bytes.reserve(5 * text.size() / 8);
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    const int value = value_of(c);
    if (value < 0) return std::nullopt;
    bits = bits << 5 | static_cast<std::uint32_t>(value);
    held += 5;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> held));
  }
  // What is left over is zeros, less than a digit of them.
  if (held >= 5 || (bits & ((1U << held) - 1)) != 0) return std::nullopt;
  return bytes;
}

}  // namespace holdfast::secure
