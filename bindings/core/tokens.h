#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Binds what makes and reads secret files and tokens.
void bind_tokens(nanobind::module_& m);

}  // namespace holdfast::bindings
