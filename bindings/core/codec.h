// Codecs for Python: their texts, and frames of arrays.
#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

void bind_codec(nanobind::module_& m);

}  // namespace holdfast::bindings
