#include "raise.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "thread_exit.h"

namespace nb = nanobind;

namespace holdfast::bindings {

void raise_if(const Status& status) {
  if (status.is_ok()) return;
  const nb::object error = parked_at_exit([&] {
    nb::list ranks;
    for (const Rank rank : status.ranks()) ranks.append(rank.value);
    return nb::module_::import_("holdfast.errors")
        .attr("from_status")(code_name(status.code()), status.message(), ranks,
                             status.epoch().value);
  });
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace holdfast::bindings
