// Tables of the program as rows for Python: what docs/reference is made from, and compared with.
#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

void bind_tables(nanobind::module_& m);

}  // namespace holdfast::bindings
