#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Binds code groups, Generations, the choice of a snapshot, and the order of a flush.
void bind_snapshots(nanobind::module_& m);

}  // namespace holdfast::bindings
