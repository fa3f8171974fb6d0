#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Binds the code of snapshots: its matrices, and products of tiles.
void bind_erasure(nanobind::module_& m);

}  // namespace holdfast::bindings
