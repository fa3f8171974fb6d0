// Tables in host memory that a GPU reads, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Call after bind_staged().
void bind_host_table(nanobind::module_& m);

}  // namespace holdfast::bindings
