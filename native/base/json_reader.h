// Reads JSON text (RFC 8259) that a person or another program wrote. It trusts nothing: size,
// depth and the number of values are bounded, a field may stand once in an object, and an error
// says the line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace holdfast {

struct JsonLimits {
  std::size_t bytes = 64u << 20;
  std::size_t values = 4u << 20;
  std::size_t fields = 64;  // of an object
  int depth = 16;
};

enum class JsonKind { kNull, kFlag, kNumber, kText, kList, kObject };

struct JsonValue {
  JsonKind kind = JsonKind::kNull;
  bool flag = false;
  double number = 0;
  std::string text;
  std::vector<JsonValue> items;    // of a list, and of an object
  std::vector<std::string> names;  // of an object's items
  int line = 1;

  bool is(JsonKind other) const { return kind == other; }
  // Of an object: the field of this name; nullptr where there is none.
  const JsonValue* find(std::string_view name) const;
};

// "a list", "a number": for errors.
const char* kind_text(JsonKind kind);

// The beginning of a text as one line of printable ASCII, other bytes as "?": for errors.
std::string shown_text(std::string_view text, std::size_t most_bytes);

// Returns kConfigError with the line and what was met.
Result<JsonValue> read_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace holdfast
