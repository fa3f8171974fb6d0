#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Coordinator.
void bind_coordinator(nanobind::module_& m);

}  // namespace holdfast::bindings
