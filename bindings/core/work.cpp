#include "work.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "comm/communicator.h"
#include "gil.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

// How long a native wait may keep a signal (Ctrl-C) from its Python handler.
constexpr Duration kSignalLook = std::chrono::milliseconds(100);

// Drops a reference; called by any thread that ends an op.
void drop(PyObject* object) {
  if (const GilTaken gil; gil) Py_DECREF(object);
}

// (epoch, contributors, missing, retried)
nb::tuple outcome_of(const comm::Outcome& outcome) {
  const auto numbers = [](const std::vector<Rank>& ranks) {
    nb::list list;
    for (const Rank rank : ranks) list.append(rank.value);
    return nb::tuple(list);
  };
  return nb::make_tuple(outcome.epoch.value, numbers(outcome.contributors),
                        numbers(outcome.missing), outcome.retried);
}

void on_done(const PyWork& work, const nb::callable& callback) {
  PyObject* held = callback.ptr();
  Py_INCREF(held);
  work->on_done([held](const Status&) {
    const GilTaken gil;
    if (!gil) return;
    PyObject* result = PyObject_CallNoArgs(held);
    if (result == nullptr) PyErr_WriteUnraisable(held);
    Py_XDECREF(result);
    Py_DECREF(held);
  });
}

}  // namespace

Duration from_seconds(double seconds) {
  constexpr double kLongest = 3e9;  // fits 64 bits of nanoseconds
  const double bounded = seconds < 0 ? 0 : seconds > kLongest ? kLongest : seconds;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bounded));
}

PyWork::~PyWork() {
  if (work_ == nullptr || work_->done()) return;
  work_->on_done([held = keep_.release().ptr()](const Status&) { drop(held); });
}

Status wait_for(comm::Work& work, Duration timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const Duration left = end - std::chrono::steady_clock::now();
    {
      const GilReleased released;
      // The op's status is read below: the op may end just after this slice timed out.
      [[maybe_unused]] const Status slice =
          work.wait(std::max(Duration::zero(), std::min(left, kSignalLook)));
    }
    if (work.done()) return work.status();
    if (left <= kSignalLook) break;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  std::ostringstream text;
  text << comm::collective_name(work.collective()) << " #" << work.sequence().value
       << " is still running after " << std::chrono::duration<double>(timeout).count()
       << " s of waiting";
  return {Code::kTimeout, text.str()};
}

void wait_to_end(comm::Communicator& group, comm::Work& work) {
  // The wait needs no limit: the op has its own.
  try {
    raise_if(wait_for(work, kForever));
  } catch (nb::python_error&) {
    if (!work.done()) {
      group.abort("interrupted by a signal");
      const GilReleased released;
      [[maybe_unused]] const Status ended = work.wait(kForever);
    }
    throw;
  }
}

void bind_work(nb::module_& m) {
  nb::class_<PyEnded>(m, "Ended")
      .def_prop_ro("source", [](const PyEnded&) { return comm::kAnySource.value; })
      .def_prop_ro("outcome", [](const PyEnded& e) { return outcome_of(*e.outcome); });
  nb::class_<PyWork>(m, "Work")
      .def_prop_ro("sequence", [](const PyWork& w) { return w->sequence().value; })
      .def_prop_ro("source", [](const PyWork& w) { return w->done() ? w->source().value : -1; })
      .def("done", [](const PyWork& w) { return w->done(); })
      .def_prop_ro("outcome", [](const PyWork& w) { return outcome_of(w->outcome()); })
      .def(
          "wait",
          [](const PyWork& w, double timeout_s) {
            raise_if(wait_for(*w, from_seconds(timeout_s)));
          },
          "timeout_s"_a)
      .def("on_done", on_done, "callback"_a);
}

}  // namespace holdfast::bindings
