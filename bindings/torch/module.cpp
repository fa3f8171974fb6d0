// The Python module: how torch's creator function makes a backend, and how errors reach Python.
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "backend.h"
#include "callbacks.h"
#include "gil.h"
#include "raise.h"
#include "runtime/node.h"

namespace py = pybind11;

namespace {

using namespace holdfast;
using torch_backend::HoldfastBackend;
using torch_backend::StatusError;

template <class T>
using IntrusiveClass = py::class_<T, c10d::Backend, c10::intrusive_ptr<T>>;

std::shared_ptr<runtime::Node> node_in(const py::capsule& capsule) {
  return *capsule.get_pointer<std::shared_ptr<runtime::Node>>();
}

c10::intrusive_ptr<HoldfastBackend> create(const py::capsule& node,
                                           const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                           int size, const std::string& group,
                                           std::chrono::milliseconds timeout,
                                           std::chrono::milliseconds connect_timeout, bool later,
                                           std::vector<int> ranks,
                                           const c10::intrusive_ptr<c10d::Backend>& parent) {
  const torch_backend::Home home{node_in(node), store, group, timeout, connect_timeout};
  // reconfigure() gives the backend its members later.
  if (later) return c10::make_intrusive<HoldfastBackend>(home, rank, size);
  torch_backend::Members members{std::move(ranks), nullptr};
  const auto* ours = dynamic_cast<const HoldfastBackend*>(parent.get());
  if (ours != nullptr) members.parent = ours->group();
  return torch_backend::join(home, rank, size, members);
}

// A backend over an existing group, which stays when the backend goes.
c10::intrusive_ptr<HoldfastBackend> wrap(const py::capsule& group,
                                         std::chrono::milliseconds timeout) {
  const auto& held = *group.get_pointer<std::shared_ptr<comm::Communicator>>();
  return c10::make_intrusive<HoldfastBackend>(
      held, torch_backend::Home{nullptr, {}, held->name(), timeout, {}});
}

// The backend's group, for the core's module, which is not built with pybind11.
py::capsule capsule(const HoldfastBackend& backend) {
  using Held = std::shared_ptr<comm::Communicator>;
  const PyCapsule_Destructor drop = [](PyObject* object) {
    delete static_cast<Held*>(PyCapsule_GetPointer(object, "holdfast.Group"));
  };
  return py::capsule(new Held(backend.group()), "holdfast.Group", drop);
}

std::optional<std::string> on_hole(const HoldfastBackend& backend) {
  const auto value = backend.on_hole();
  if (!value) return std::nullopt;
  return *value == comm::OnHole::kZero ? "zero" : "raise";
}

void set_on_hole(HoldfastBackend& backend, const std::optional<std::string>& name) {
  if (!name) return backend.set_on_hole(std::nullopt);
  if (*name != "zero" && *name != "raise") {
    torch_backend::raise(
        {Code::kConfigError, "on_hole = \"" + *name + "\"; accepted: \"raise\", \"zero\", None"});
  }
  backend.set_on_hole(*name == "zero" ? comm::OnHole::kZero : comm::OnHole::kRaise);
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const StatusError& error) {
    const Status& status = error.status();
    const py::object exception = bindings::parked_at_exit([&] {
      py::list ranks;
      for (const Rank rank : status.ranks()) ranks.append(rank.value);
      return py::object(py::module_::import("holdfast.errors")
                            .attr("from_status")(code_name(status.code()), status.message(), ranks,
                                                 status.epoch().value));
    });
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  }
}

// (epoch, contributors, missing, retried)
py::tuple outcome(const c10::intrusive_ptr<c10d::Work>& work) {
  const auto* ours = dynamic_cast<const torch_backend::HoldfastWork*>(work.get());
  if (ours == nullptr) {
    torch_backend::raise({Code::kConfigError,
                          "work of another backend; accepted: what an op with "
                          "async_op=True on a holdfast group returned"});
  }
  const comm::Outcome made_of = ours->made_of();
  const auto numbers = [](const std::vector<Rank>& ranks) {
    py::tuple tuple(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) tuple[i] = ranks[i].value;
    return tuple;
  };
  return py::make_tuple(made_of.epoch.value, numbers(made_of.contributors),
                        numbers(made_of.missing), made_of.retried);
}

// `whole`: whether a caller that waits for the op's Future is blocked from the op's start to its
// end. Works of other backends are ignored.
void tell_wait(const c10::intrusive_ptr<c10d::Work>& work, bool whole) {
  const auto* ours = dynamic_cast<const torch_backend::HoldfastWork*>(work.get());
  if (ours != nullptr) ours->tell_wait(whole ? comm::OtherWait::kWhole : comm::OtherWait::kNone);
}

}  // namespace

// The build names it, _c10d_2_13 for torch 2.13, and bindings/holdfast/_torch_modules.py chooses.
PYBIND11_MODULE(HOLDFAST_TORCH_MODULE, m) {
  m.doc() = "The PyTorch backend of Holdfast. torch loads it; there is nothing to call.";
  m.attr("built_for_torch") = HOLDFAST_TORCH_VERSION;
  py::register_exception_translator(translate);
  IntrusiveClass<HoldfastBackend>(m, "HoldfastBackend")
      .def_property_readonly("options", &HoldfastBackend::getBackendOptions)
      .def("_set_default_timeout", &HoldfastBackend::setTimeout, py::arg("timeout"))
      .def("get_error", &HoldfastBackend::getError)
      .def("capsule", capsule)
      .def("live_ranks", &HoldfastBackend::live_ranks)
      .def("advance", &HoldfastBackend::advance, py::arg("timeout"))
      .def_property("is_fresh", &HoldfastBackend::is_fresh, &HoldfastBackend::set_fresh)
      .def_property("priority", &HoldfastBackend::priority, &HoldfastBackend::set_priority)
      .def_property("on_hole", on_hole, set_on_hole)
      .def("split", &HoldfastBackend::split, py::arg("store"), py::arg("ranks"),
           py::arg("opts") = nullptr)
      .def("merge", &HoldfastBackend::merge, py::arg("store"), py::arg("opts"), py::arg("rank"),
           py::arg("size"));
  m.def("process_ends", torch_backend::process_ends);
  m.def("drain_callbacks", torch_backend::Callbacks::drain, py::arg("limit"),
        py::call_guard<py::gil_scoped_release>());
  m.def("end_callbacks", torch_backend::Callbacks::end);
  m.def("outcome", outcome, py::arg("work"));
  m.def("tell_wait", tell_wait, py::arg("work"), py::arg("whole"));
  m.def("wrap", wrap, py::arg("group"), py::arg("timeout"));
  m.def("create", create, py::arg("node"), py::arg("store"), py::arg("rank"), py::arg("size"),
        py::arg("group"), py::arg("timeout"), py::arg("connect_timeout"), py::arg("later"),
        py::arg("ranks"), py::arg("parent"));
}
