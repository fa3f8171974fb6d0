// What the rows of the option table do with a value: write it as text, read it from a text, and
// check that it is within the row's limits.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <concepts>
#include <optional>
#include <type_traits>

#include "runtime/option_table.h"

namespace holdfast::runtime {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

// Whether the field is an enumeration, whose values are written as words.
template <class T>
constexpr bool kIsWord = std::is_enum_v<T>;

bool is_within(const OptionRow& row, std::uint64_t number) {
  return (row.or_zero && number == 0) || (number >= row.least && number <= row.most);
}

// A time as a whole number of seconds, or with the digits that it takes.
std::string seconds_text(Duration time) {
  char text[32];
  const double seconds = static_cast<double>(time.count()) / kNanosecondsPerSecond;
  const auto end = std::to_chars(text, text + sizeof text, seconds, std::chars_format::fixed);
  return {text, end.ptr};
}

template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::vector<std::string> parse_names(const std::string& list) {
  std::vector<std::string> names(1);
  for (const char c : list) {
    if (c == ',') {
      names.emplace_back();
    } else if (c != ' ') {
      names.back() += c;
    }
  }
  return names;
}

// The value of the text; nullopt where the text has none, or one outside of the limits.
template <class T>
std::optional<T> parse(const OptionRow& row, const std::string& text) {
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return parse_names(text);
  } else if constexpr (std::is_same_v<T, std::string>) {
    const bool any = row.choices.empty() || std::ranges::count(row.choices, text) > 0;
    return any ? std::optional(text) : std::nullopt;
  } else if constexpr (std::is_same_v<T, bool>) {
    return text == "1" || text == "0" ? std::optional(text == "1") : std::nullopt;
  } else if constexpr (std::is_same_v<T, Duration>) {
    const auto seconds = parse_number<double>(text);
    const double most = static_cast<double>(row.most) / kNanosecondsPerSecond;
    if (!seconds || !(*seconds >= 0 && *seconds <= most)) return std::nullopt;
    const Duration time(static_cast<std::int64_t>(*seconds * kNanosecondsPerSecond));
    const bool fits = is_within(row, static_cast<std::uint64_t>(time.count()));
    return fits ? std::optional(time) : std::nullopt;
  } else if constexpr (kIsWord<T>) {
    const auto found = std::ranges::find(row.words, text);
    if (found == row.words.end()) return std::nullopt;
    return static_cast<T>(found - row.words.begin());
  } else {
    const auto number = parse_number<T>(text);
    return number && is_within(row, *number) ? number : std::nullopt;
  }
}

template <class T>
Status check_value(const OptionRow& row, const T& value) {
  if constexpr (std::is_same_v<T, Duration>) {
    const bool negative = value < Duration::zero();
    if (!negative && is_within(row, static_cast<std::uint64_t>(value.count()))) return Status::ok();
    return refuse_option(row, std::to_string(value.count()) + " ns", row.accepted);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (row.choices.empty() || std::ranges::count(row.choices, value) > 0) return Status::ok();
    return refuse_option(row, "\"" + value + "\"", row.accepted);
  } else if constexpr (std::is_unsigned_v<T> && !std::is_same_v<T, bool>) {
    if (is_within(row, value)) return Status::ok();
    return refuse_option(row, std::to_string(value), row.accepted);
  } else {
    return Status::ok();
  }
}

std::string text_of(const OptionRow&, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}
std::string text_of(const OptionRow&, const std::string& text) { return text; }
std::string text_of(const OptionRow&, Duration time) { return seconds_text(time); }
std::string text_of(const OptionRow&, bool flag) { return flag ? "1" : "0"; }
template <std::unsigned_integral T>
std::string text_of(const OptionRow&, T number) {
  return std::to_string(number);
}
template <class T>
requires kIsWord<T> std::string text_of(const OptionRow& row, T word) {
  return std::string(row.words.at(static_cast<std::size_t>(word)));
}

struct TypeName {
  std::string_view operator()(std::vector<std::string> Options::*) const { return "names"; }
  std::string_view operator()(Duration Options::*) const { return "seconds"; }
  std::string_view operator()(std::uint16_t Options::*) const { return "port"; }
  std::string_view operator()(std::uint64_t Options::*) const { return "bytes"; }
  std::string_view operator()(bool Options::*) const { return "flag"; }
  std::string_view operator()(std::string Options::*) const { return "text"; }
  template <class T>
  std::string_view operator()(T Options::*) const {
    return "word";
  }
};

}  // namespace

const OptionRow* find_option(std::string_view name) {
  const auto rows = option_table();
  const auto found = std::ranges::find(rows, name, &OptionRow::name);
  return found == rows.end() ? nullptr : &*found;
}

Status refuse_option(const OptionRow& row, const std::string& value, std::string_view accepted) {
  return {Code::kConfigError, "option " + std::string(row.name) + " = " + value +
                                  "; accepted: " + std::string(accepted)};
}

Status check_option(const OptionRow& row, const Options& options) {
  TRY(std::visit([&](auto field) { return check_value(row, options.*field); }, row.field));
  return row.check == nullptr ? Status::ok() : row.check(row, options);
}

std::string option_variable(const OptionRow& row) {
  std::string name = "HOLDFAST_";
  for (const char c : row.name) name += static_cast<char>(std::toupper(c));
  return name;
}

std::string_view option_type(const OptionRow& row) { return std::visit(TypeName{}, row.field); }

std::string option_text(const OptionRow& row, const Options& options) {
  return std::visit([&](auto field) { return text_of(row, options.*field); }, row.field);
}

Status read_option(const OptionRow& row, const std::string& text, Options& to) {
  const bool known = std::visit(
      [&](auto field) {
        const auto value = parse<std::remove_cvref_t<decltype(to.*field)>>(row, text);
        if (value) to.*field = *value;
        return value.has_value();
      },
      row.field);
  if (known) return Status::ok();
  const std::string kind = option_type(row) == "seconds" ? "a number of seconds, " : "";
  return {Code::kConfigError,
          option_variable(row) + " = \"" + text + "\"; accepted: " + kind + option_accepted(row)};
}

std::string option_accepted(const OptionRow& row) {
  if (row.words[0].empty()) return std::string(row.accepted);
  return "\"" + std::string(row.words[0]) + "\" or \"" + std::string(row.words[1]) + "\"";
}

}  // namespace holdfast::runtime
