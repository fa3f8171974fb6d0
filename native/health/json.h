// JSON text (RFC 8259), written by hand: our documents are flat and small.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::health {

// The string in quotes, with escapes; bytes that are no UTF-8 become U+FFFD.
std::string json_text(std::string_view text);
// Sixteen hexadecimal digits.
std::string hex_digits(std::uint64_t value);

// Writes objects and lists, with the commas between items. The caller closes each one that it
// opens.
class JsonWriter {
 public:
  // `name`: the field's name; empty for an item of a list.
  void open(std::string_view name, char bracket);
  void close(char bracket);
  void text(std::string_view name, std::string_view value);
  void number(std::string_view name, double value);  // one that is not finite becomes null
  void number(std::string_view name, std::uint64_t value);
  void flag(std::string_view name, bool value);
  void nothing(std::string_view name);
  std::string take() { return std::move(text_); }

 private:
  void begin(std::string_view name);

  std::string text_;
  bool first_ = true;
};

}  // namespace holdfast::health
