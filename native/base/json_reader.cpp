#include "base/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace holdfast {
namespace {

constexpr std::size_t kMostShownBytes = 24;

class JsonReader {
 public:
  JsonReader(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  Result<JsonValue> whole() {
    if (text_.size() > limits_.bytes) {
      return Status{Code::kConfigError, std::to_string(text_.size()) +
                                            " bytes of JSON; accepted: at most " +
                                            std::to_string(limits_.bytes)};
    }
    JsonValue value;
    TRY(read(value, 0));
    skip_blanks();
    if (at_ != text_.size()) return refused("the text goes on after its value");
    return value;
  }

 private:
  Status refused(const std::string& what) const {
    return {Code::kConfigError, "line " + std::to_string(line_) + ": " + what};
  }
  Status met(const std::string& expected) const {
    if (at_ >= text_.size()) return refused("the text ends; expected: " + expected);
    const std::string_view rest = text_.substr(at_);
    const std::string_view line = rest.substr(0, rest.find_first_of("\r\n"));
    return refused("\"" + shown_text(line, kMostShownBytes) + "\"; expected: " + expected);
  }

  void skip_blanks() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
    }
  }
  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Status read(JsonValue& value, int depth) {
    skip_blanks();
    if (depth > limits_.depth) {
      return refused("values are nested deeper than " + std::to_string(limits_.depth));
    }
    if (++values_ > limits_.values) {
      return refused("more than " + std::to_string(limits_.values) + " values");
    }
    value.line = line_;
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '{') return read_object(value, depth);
    if (c == '[') return read_list(value, depth);
    if (c == '"') {
      value.kind = JsonKind::kText;
      return read_text(value.text);
    }
    if (take_word("true") || take_word("false")) {
      value.kind = JsonKind::kFlag;
      value.flag = c == 't';
      return Status::ok();
    }
    if (take_word("null")) return Status::ok();
    return read_number(value);
  }

  Status read_object(JsonValue& value, int depth) {
    value.kind = JsonKind::kObject;
    ++at_;
    if (take('}')) return Status::ok();
    do {
      skip_blanks();
      if (at_ >= text_.size() || text_[at_] != '"') return met("a field's name in quotes");
      std::string name;
      TRY(read_text(name));
      if (value.names.size() == limits_.fields) {
        return refused("an object of more than " + std::to_string(limits_.fields) + " fields");
      }
      if (value.find(name) != nullptr)
        return refused("the field \"" + shown_text(name, kMostShownBytes) + "\" stands twice");
      if (!take(':')) return met("\":\" after \"" + shown_text(name, kMostShownBytes) + "\"");
      value.names.push_back(std::move(name));
      value.items.emplace_back();
      TRY(read(value.items.back(), depth + 1));
    } while (take(','));
    return take('}') ? Status::ok() : met("\",\" or \"}\"");
  }

  Status read_list(JsonValue& value, int depth) {
    value.kind = JsonKind::kList;
    ++at_;
    if (take(']')) return Status::ok();
    do {
      value.items.emplace_back();
      TRY(read(value.items.back(), depth + 1));
    } while (take(','));
    return take(']') ? Status::ok() : met("\",\" or \"]\"");
  }

  // JSON's numbers are a part of what from_chars reads: no "inf", no "nan", no leading "." or zero.
  Status read_number(JsonValue& value) {
    std::size_t end = at_;
    const auto digits = [&] {
      const std::size_t first = end;
      while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
      return end - first;
    };
    const auto one_of = [&](std::string_view wanted) {
      const bool is = end < text_.size() && wanted.find(text_[end]) != std::string_view::npos;
      end += is ? 1 : 0;
      return is;
    };
    one_of("-");
    const std::size_t first = end;
    bool fits = digits() > 0 && (text_[first] != '0' || end == first + 1);
    if (fits && one_of(".")) fits = digits() > 0;
    if (fits && one_of("eE")) {
      one_of("+-");
      fits = digits() > 0;
    }
    if (!fits) return met("a value");
    value.kind = JsonKind::kNumber;
    const auto found = std::from_chars(text_.data() + at_, text_.data() + end, value.number);
    if (found.ec != std::errc{} || !std::isfinite(value.number)) {
      return met("a number that a double holds");
    }
    at_ = end;
    return Status::ok();
  }

  Status read_text(std::string& out) {
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return Status::ok();
      }
      if (static_cast<unsigned char>(c) < 0x20) return refused("a control character in a string");
      if (c != '\\') {
        out += c;
        continue;
      }
      TRY(read_escape(out));
    }
    return refused("a string has no end");
  }

  Status read_escape(std::string& out) {
    constexpr std::array<std::pair<char, char>, 8> kShort{{{'"', '"'},
                                                           {'\\', '\\'},
                                                           {'/', '/'},
                                                           {'b', '\b'},
                                                           {'f', '\f'},
                                                           {'n', '\n'},
                                                           {'r', '\r'},
                                                           {'t', '\t'}}};
    const char c = ++at_ < text_.size() ? text_[at_] : '\0';
    for (const auto& [written, meant] : kShort) {
      if (c != written) continue;
      out += meant;
      return Status::ok();
    }
    if (c != 'u') return refused("an escape that JSON does not have");
    std::uint32_t code = 0;
    TRY(read_hex(code));
    const bool is_high = code >= 0xD800 && code < 0xDC00;
    if (is_high) {
      std::uint32_t low = 0;
      if (text_.substr(at_ + 1, 2) != "\\u") return refused("half of a surrogate pair");
      at_ += 2;
      TRY(read_hex(low));
      if (low < 0xDC00 || low > 0xDFFF) return refused("half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
      return refused("half of a surrogate pair");
    }
    add_utf8(out, code);
    return Status::ok();
  }

  // `at_` is on the "u", and is left on the last digit.
  Status read_hex(std::uint32_t& code) {
    const std::string_view digits = text_.substr(at_ + 1, 4);
    const auto end = digits.data() + digits.size();
    const auto found = std::from_chars(digits.data(), end, code, 16);
    if (digits.size() != 4 || found.ec != std::errc{} || found.ptr != end) {
      return refused("\\u wants four hexadecimal digits");
    }
    at_ += 4;
    return Status::ok();
  }

  static void add_utf8(std::string& out, std::uint32_t code) {
    const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) return add(code);
    const auto rest = [&](int shift) { add(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x800) {
      add(0xC0 | (code >> 6));
    } else if (code < 0x10000) {
      add(0xE0 | (code >> 12));
      rest(6);
    } else {
      add(0xF0 | (code >> 18));
      rest(12);
      rest(6);
    }
    rest(0);
  }

  std::string_view text_;
  const JsonLimits& limits_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  int line_ = 1;
};

}  // namespace

std::string shown_text(std::string_view text, std::size_t most_bytes) {
  std::string shown;
  for (const char c : text.substr(0, most_bytes)) shown += c >= ' ' && c < 0x7f ? c : '?';
  return shown;
}

const JsonValue* JsonValue::find(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &items[static_cast<std::size_t>(found - names.begin())];
}

const char* kind_text(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull: return "null";
    case JsonKind::kFlag: return "true or false";
    case JsonKind::kNumber: return "a number";
    case JsonKind::kText: return "a string";
    case JsonKind::kList: return "a list";
    case JsonKind::kObject: return "an object";
  }
  return "nothing";
}

Result<JsonValue> read_json(std::string_view text, const JsonLimits& limits) {
  return JsonReader(text, limits).whole();
}

}  // namespace holdfast
