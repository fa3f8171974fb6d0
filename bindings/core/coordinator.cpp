#include "coordinator.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "gil.h"
#include "raise.h"
#include "runtime/coordinator_process.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using runtime::CoordinatorProcess;

// [(name, epoch, [rank that is there], ranks, waiting, what blocks it)]
nb::list worlds(CoordinatorProcess& coordinator) {
  std::vector<ft::Coordination::Standing> standings;
  {
    const GilReleased released;
    standings = coordinator.worlds();
  }
  nb::list result;
  for (const auto& world : standings) {
    nb::list present;
    for (std::size_t r = 0; r < world.view.members.size(); ++r) {
      if (world.view.members[r] != ft::kNobody) present.append(r);
    }
    result.append(nb::make_tuple(world.name, world.view.epoch.value, present,
                                 world.view.members.size(), world.waiting, world.blocked));
  }
  return result;
}

}  // namespace

void bind_coordinator(nb::module_& m) {
  nb::class_<CoordinatorProcess>(m, "Coordinator")
      .def_static(
          "create",
          [](const runtime::Options& options, std::size_t min_peers) {
            return value_or_raise(CoordinatorProcess::create(options, min_peers));
          },
          "options"_a, "min_peers"_a)
      .def_prop_ro("port", &CoordinatorProcess::port)
      .def_prop_ro("http_address", &CoordinatorProcess::http_address)
      .def("worlds", worlds)
      .def("close", [](CoordinatorProcess& coordinator) {
        const GilReleased released;
        coordinator.close();
      });
}

}  // namespace holdfast::bindings
