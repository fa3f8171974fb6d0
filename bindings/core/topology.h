#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Binds maps of links, and what a planner makes of them.
void bind_topology(nanobind::module_& m);

}  // namespace holdfast::bindings
