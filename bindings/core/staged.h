// Collectives on device memory, for Python.
#pragma once

#include <nanobind/nanobind.h>

#include "runtime/node.h"

namespace holdfast::bindings {

void bind_staged(nanobind::module_& m, nanobind::class_<runtime::Node>& node);

}  // namespace holdfast::bindings
