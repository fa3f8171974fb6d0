#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Options, Node, Communicator, Work.
void bind_group(nanobind::module_& m);

}  // namespace holdfast::bindings
