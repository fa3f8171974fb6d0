// Options for Python: the native struct, and the table that describes its fields.
#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

void bind_options(nanobind::module_& m);

}  // namespace holdfast::bindings
