// The table of options: one row for each field of Options. Only here stand an option's name, its
// check and the text of its refusal, whether ranks must agree on it, and what it means; defaults
// are the fields' own. The environment, validate(), settings_text(), the C interface and
// docs/reference/options.md are made from it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/options.h"

namespace holdfast::runtime {

// A field's type is what its variable is read as: a list of names, seconds, a port, a number of
// bytes, 1 or 0, a text, or one of two words, whose indices in OptionRow::words are the values.
using OptionField =
    std::variant<std::vector<std::string> Options::*, Duration Options::*, std::uint16_t Options::*,
                 std::uint64_t Options::*, bool Options::*, std::string Options::*,
                 comm::PeerLoss Options::*, comm::OnHole Options::*, ResetTrust Options::*>;

// Whether all members of a group must have set an option alike; they are told where they have not.
enum class Agreement : std::uint8_t {
  kNone,
  kAlways,
  kIfSet,   // as kAlways, but settings_text() omits it while it has its default
  kInPart,  // as kIfSet; its doc says which part of it must be alike
};

struct OptionRow {
  std::string_view name;
  OptionField field;
  std::string_view accepted;  // in errors; "" for a text option: anything
  std::string_view doc;       // one sentence or two
  Agreement agreement = Agreement::kNone;
  // Limits of a number, in nanoseconds where it is a time.
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  bool or_zero = false;  // zero is accepted beside those limits
  std::array<std::string_view, 2> words{};
  std::span<const char* const> choices{};  // the accepted values of a text that is one of a few
  // Checks what limits, words and choices do not say; nullptr: nothing more is checked.
  Status (*check)(const OptionRow& row, const Options& options) = nullptr;
  // The text that is compared in place of the value; nullptr: the value. "" of a kIfSet option:
  // nothing is compared.
  std::string (*agreed)(const Options& options, const comm::PlanTable& plan) = nullptr;
};

// The rows, in the order of the fields.
std::span<const OptionRow> option_table();
// nullptr: no option has this name.
const OptionRow* find_option(std::string_view name);

// kConfigError naming the option, the value, and what is accepted.
Status check_option(const OptionRow& row, const Options& options);
Status refuse_option(const OptionRow& row, const std::string& value, std::string_view accepted);

// "HOLDFAST_SILENCE".
std::string option_variable(const OptionRow& row);
// "seconds", "text", ...
std::string_view option_type(const OptionRow& row);
// What errors name as accepted.
std::string option_accepted(const OptionRow& row);
// The value as the text of its environment variable.
std::string option_text(const OptionRow& row, const Options& options);
// Sets the option in `to` from its variable's text. kConfigError naming the variable; checks that
// depend on other options are left to validate().
Status read_option(const OptionRow& row, const std::string& text, Options& to);

// The text of docs/reference/options.md.
std::string options_page();

}  // namespace holdfast::runtime
