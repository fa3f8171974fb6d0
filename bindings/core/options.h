// Options for Python: the native struct, and the table that says what each of its fields is.
#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

void bind_options(nanobind::module_& m);

}  // namespace holdfast::bindings
