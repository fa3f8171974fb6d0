#include "runtime/coordinator/record_text.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "base/fnv.h"
#include "ft/message.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kHead = "holdfast record ";
constexpr int kFormat = 1;
constexpr std::string_view kNone = "none";

std::string padded_hex(std::uint64_t value) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(value));
  return digits.data();
}

std::string checksum(std::string_view text) {
  Fnv1a hash;
  hash.mix(text);
  return padded_hex(hash.value());
}

// Takes the next word off the text; it ends with a blank or with the text.
std::string_view take_word(std::string_view& text) {
  const auto end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

template <class Number>
bool read(std::string_view word, Number& number, int base) {
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, number, base);
  return error == std::errc{} && at == end && !word.empty();
}

// Names are chosen by users: characters that would end a word or a line are written as numbers.
std::string escape(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    if (code > ' ' && code != '%' && code != 0x7f) {
      text += c;
    } else {
      text += "%" + padded_hex(code).substr(14);
    }
  }
  return text;
}

std::optional<std::string> unescape(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    unsigned code = 0;
    if (i + 2 >= text.size() || !read(text.substr(i + 1, 2), code, 16)) return std::nullopt;
    name += static_cast<char>(code);
    i += 2;
  }
  return name;
}

Status unreadable(int line) {
  return {Code::kProtocolError, "line " + std::to_string(line) + " is damaged"};
}

}  // namespace

std::string record_text(const std::optional<ft::WorldRecord>& record) {
  if (!record) return std::string(kNone);
  std::string text = padded_hex(record->world.value) + " " + std::to_string(record->epoch.value);
  for (const MemberId member : record->members) text += " " + padded_hex(member.value);
  return text;
}

Result<std::optional<ft::WorldRecord>> parse_record(std::string_view text) {
  if (text == kNone) return std::optional<ft::WorldRecord>{};
  ft::WorldRecord record;
  bool sound = read(take_word(text), record.world.value, 16);
  sound = read(take_word(text), record.epoch.value, 10) && sound;
  while (sound && !text.empty()) {
    MemberId member;
    sound = read(take_word(text), member.value, 16) && record.members.size() < ft::kMaxRanks;
    record.members.push_back(member);
  }
  if (!sound) return Status{Code::kProtocolError, "no record of a world"};
  return std::optional(std::move(record));
}

std::string records_text(const Records& records) {
  std::string body;
  for (const auto& [name, record] : records) {
    body += escape(name) + " " + record_text(record) + "\n";
  }
  return std::string(kHead) + std::to_string(kFormat) + " " + checksum(body) + "\n" + body;
}

Result<Records> parse_records(const std::string& text) {
  std::string_view rest = text;
  const auto take_line = [&] {
    const auto end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return line;
  };
  std::string_view head = take_line();
  int format = 0;
  if (!head.starts_with(kHead)) return unreadable(1);
  head.remove_prefix(kHead.size());
  if (!read(take_word(head), format, 10) || format < 1) return unreadable(1);
  if (format > kFormat) {
    return Status{Code::kUnsupported, "its format is " + std::to_string(format) +
                                          ", written by a later version; this one reads " +
                                          std::to_string(kFormat)};
  }
  if (head != checksum(rest)) return Status{Code::kProtocolError, "its checksum is wrong"};
  Records records;
  for (int line = 2; !rest.empty(); ++line) {
    std::string_view entry = take_line();
    const auto name = unescape(take_word(entry));
    auto record = parse_record(entry);
    if (!name || !record.is_ok() || !record.value()) return unreadable(line);
    records[*name] = std::move(*record.value());
  }
  return records;
}

}  // namespace holdfast::runtime
