// The reference of options as a page: docs/reference/options.md, which a test compares with it.
#include <algorithm>

#include "runtime/option_table.h"

namespace holdfast::runtime {
namespace {

constexpr std::size_t kPageWidth = 100;

constexpr std::string_view kPageTop = R"(# Options

This page is made from the table of options, `native/runtime/option_table.cpp`, by
`make reference`. Each option is a field of `holdfast.Options`, and a variable of the environment,
which a program reads by `Options.from_env()` or `hf_options_from_env()`; `holdfast info` shows
which are in force. A list's names have commas between them, and a flag is 1 or 0.
)";

// The text in lines of at most kPageWidth characters, those after the first indented.
std::string wrapped(std::string_view text, std::string_view indent) {
  std::string page;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (column > 0 && column + 1 + word.size() > kPageWidth) {
      page += "\n" + std::string(indent);
      column = indent.size();
    } else if (column > 0) {
      page += " ";
      ++column;
    }
    page += word;
    column += word.size();
  }
  return page + "\n";
}

std::string agreement_text(Agreement agreement) {
  switch (agreement) {
    case Agreement::kNone: return "each its own";
    case Agreement::kInPart: return "each its own, but for what is said above";
    case Agreement::kAlways:
    case Agreement::kIfSet: return "all alike; where they are not, a new group is refused";
  }
  return "";
}

std::string section(const OptionRow& row) {
  const std::string usual = option_text(row, Options{});
  std::string page = "\n## " + std::string(row.name) + "\n\n" + wrapped(row.doc, "") + "\n";
  const auto item = [&](const std::string& text) { page += wrapped("- " + text, "  "); };
  item("variable: `" + option_variable(row) + "`");
  item("type: " + std::string(option_type(row)));
  item("default: " + (usual.empty() ? "empty" : "`" + usual + "`"));
  if (const std::string accepted = option_accepted(row); !accepted.empty()) {
    item("accepted: " + accepted);
  }
  item("ranks: " + agreement_text(row.agreement));
  return page;
}

}  // namespace

std::string options_page() {
  std::string page(kPageTop);
  for (const OptionRow& row : option_table()) page += section(row);
  return page;
}

}  // namespace holdfast::runtime
