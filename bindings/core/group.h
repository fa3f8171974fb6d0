#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Binds Options, Node, Communicator and Work.
void bind_group(nanobind::module_& m);

}  // namespace holdfast::bindings
