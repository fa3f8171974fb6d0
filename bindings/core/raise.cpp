#include "raise.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace holdfast::bindings {

void raise_if(const Status& status) {
  if (status.is_ok()) return;
  nb::list ranks;
  for (const Rank rank : status.ranks()) ranks.append(rank.value);
  const nb::object error = nb::module_::import_("holdfast.errors")
                               .attr("from_status")(code_name(status.code()), status.message(),
                                                    ranks, status.epoch().value);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace holdfast::bindings
