#include "options.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "health/lock/credentials.h"
#include "raise.h"
#include "runtime/option_table.h"
#include "work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using runtime::OptionRow;
using runtime::Options;

const OptionRow& row_of(const std::string& name) {
  const OptionRow* row = runtime::find_option(name);
  if (row == nullptr) throw nb::key_error(name.c_str());
  return *row;
}

// Sets one option. options.py has checked the value's type: a time is in seconds, a word a string.
void set_option(Options& options, const std::string& name, nb::handle value) {
  const OptionRow& row = row_of(name);
  const auto set = [&](auto field) {
    using Value = std::remove_cvref_t<decltype(options.*field)>;
    if constexpr (std::is_same_v<Value, Duration>) {
      options.*field = from_seconds(nb::cast<double>(value));
    } else if constexpr (std::is_enum_v<Value>) {
      raise_if(read_option(row, nb::cast<std::string>(value), options));
    } else {
      options.*field = nb::cast<Value>(value);
    }
  };
  std::visit(set, row.field);
}

// (name, variable, type, default as the variable's text, accepted words, whether 0 is accepted
// outside its limits).
using RowForPython =
    std::tuple<std::string, std::string, std::string, std::string, std::vector<std::string>, bool>;

std::vector<RowForPython> option_rows() {
  std::vector<RowForPython> rows;
  for (const OptionRow& row : runtime::option_table()) {
    std::vector<std::string> words;
    for (const std::string_view word : row.words) {
      if (!word.empty()) words.emplace_back(word);
    }
    rows.emplace_back(row.name, option_variable(row), option_type(row), option_text(row, Options{}),
                      std::move(words), row.or_zero);
  }
  return rows;
}

}  // namespace

void bind_options(nb::module_& m) {
  nb::class_<Options>(m, "Options")
      .def(nb::init<>())
      .def("set", set_option, "name"_a, "value"_a)
      .def("set_token", [](Options& options, const std::string& text) { options.token = text; });
  m.def("validate", [](const Options& options) { raise_if(runtime::validate(options)); });
  m.def("option_rows", option_rows);
  m.def("options_page", runtime::options_page);
  m.def(
      "page_authorization",
      [](const std::string& path) {
        return value_or_raise(health::Credentials::open(path)).authorization();
      },
      "path"_a);
}

}  // namespace holdfast::bindings
