// Codecs for Python: codecs as text, and frames of arrays.
#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

void bind_codec(nanobind::module_& m);

}  // namespace holdfast::bindings
