#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Binds simulated worlds.
void bind_simulation(nanobind::module_& m);

}  // namespace holdfast::bindings
