#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Simulated worlds.
void bind_simulation(nanobind::module_& m);

}  // namespace holdfast::bindings
