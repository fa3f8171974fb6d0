#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Binds Coordinator.
void bind_coordinator(nanobind::module_& m);

}  // namespace holdfast::bindings
