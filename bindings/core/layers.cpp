#include "layers.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using health::StateMetrics;
using runtime::Node;

void add_sync(Node& node, std::uint64_t sent, std::uint64_t received, std::uint64_t ended,
              double seconds) {
  node.layers().add_sync({sent, received, ended, seconds});
}

void add_saving(Node& node, const std::string& method, std::uint64_t raw, std::uint64_t wire) {
  node.layers().add_saving(method, {raw, wire});
}

void set_residual_norm(Node& node, const std::string& method, double norm) {
  node.layers().set_residual_norm(method, norm);
}

// Python tells for how long something has been so.
Instant so_long_ago(double age) {
  const auto ago = std::chrono::duration<double>(std::clamp(age, 0.0, 1e9));
  return {MonotonicClock().now().since_origin - std::chrono::duration_cast<Duration>(ago)};
}

StateMetrics& state_of(Node& node) { return node.layers().state(); }

void add_state(Node& node, double stalled, std::uint64_t captured, std::uint64_t sent,
               std::uint64_t flushed, std::uint64_t damaged) {
  state_of(node).add({stalled, captured, sent, flushed, damaged});
}

void reach_state(Node& node, bool flushed, std::int64_t step, double age) {
  using Reached = StateMetrics::Reached;
  state_of(node).reach(flushed ? Reached::kFlushed : Reached::kCommitted, step, so_long_ago(age));
}

}  // namespace

void bind_layers(nb::class_<Node>& node) {
  node.def("add_sync", add_sync, "sent"_a = 0, "received"_a = 0, "ended"_a = 0, "seconds"_a = 0.0)
      .def("add_saving", add_saving, "method"_a, "raw"_a, "wire"_a)
      .def("set_residual_norm", set_residual_norm, "method"_a, "norm"_a)
      .def("add_state", add_state, "stalled"_a = 0.0, "captured"_a = 0, "sent"_a = 0,
           "flushed"_a = 0, "damaged"_a = 0)
      .def(
          "add_restore",
          [](Node& n, const std::string& source) { state_of(n).add_restore(source); }, "source"_a)
      .def("reach_state", reach_state, "flushed"_a, "step"_a, "age"_a)
      .def(
          "expose_state",
          [](Node& n, const std::string& why, double age) {
            state_of(n).set_exposed(why, so_long_ago(age));
          },
          "why"_a, "age"_a)
      .def("end_state", [](Node& n) { state_of(n).end(); });
}

}  // namespace holdfast::bindings
