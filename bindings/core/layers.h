// Counts that the Python layers report to a node (health/layer_metrics.h).
#pragma once

#include <nanobind/nanobind.h>

#include "runtime/node.h"

namespace holdfast::bindings {

void bind_layers(nanobind::class_<runtime::Node>& node);

}  // namespace holdfast::bindings
