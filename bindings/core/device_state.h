// DeviceState: native/device_comm/device_state.h for Python, and pinned memory for its copies.
#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::bindings {

// Call after bind_staged().
void bind_device_state(nanobind::module_& m);

}  // namespace holdfast::bindings
