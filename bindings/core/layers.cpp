#include "layers.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

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

}  // namespace

void bind_layers(nb::class_<Node>& node) {
  node.def("add_sync", add_sync, "sent"_a = 0, "received"_a = 0, "ended"_a = 0, "seconds"_a = 0.0)
      .def("add_saving", add_saving, "method"_a, "raw"_a, "wire"_a)
      .def("set_residual_norm", set_residual_norm, "method"_a, "norm"_a);
}

}  // namespace holdfast::bindings
