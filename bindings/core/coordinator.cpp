#include "coordinator.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <set>
#include <string>
#include <vector>

#include "gil.h"
#include "raise.h"
#include "runtime/coordinator/process.h"
#include "store.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using runtime::CoordinatorProcess;

constexpr double kKeepSeconds = std::chrono::duration<double>(ft::kKeepWorlds).count();

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

std::set<secure::Serial> serials_of(const std::vector<std::string>& texts) {
  std::set<secure::Serial> serials;
  for (const std::string& text : texts) serials.insert(value_or_raise(secure::parse_serial(text)));
  return serials;
}

// [(name, epoch, [rank with a member], ranks, waiting, why it is blocked)]
nb::list worlds(CoordinatorProcess& coordinator) {
  std::vector<ft::CoordinatorService::WorldStanding> standings;
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
          [](const runtime::Options& options, std::size_t min_peers, const std::string& record,
             std::optional<double> grace, double keep, const nb::object& store,
             const std::vector<std::string>& revoked) {
            runtime::CoordinatorOptions own;
            own.min_peers = min_peers;
            own.record_file = record;
            if (grace) own.grace = seconds(*grace);
            own.keep = seconds(keep);
            if (!store.is_none()) own.record_store = std::make_shared<PythonStore>(store);
            own.revoked = serials_of(revoked);
            return value_or_raise(CoordinatorProcess::create(options, own));
          },
          "options"_a, "min_peers"_a, "record"_a = "", "grace"_a = nb::none(),
          "keep"_a = kKeepSeconds, "store"_a = nb::none(), "revoked"_a = std::vector<std::string>())
      .def_prop_ro("port", &CoordinatorProcess::port)
      .def_prop_ro("http_address", &CoordinatorProcess::http_address)
      .def("worlds", worlds)
      .def(
          "revoke",
          [](CoordinatorProcess& coordinator, const std::vector<std::string>& texts) {
            const auto serials = serials_of(texts);
            const GilReleased released;
            coordinator.revoke(serials);
          },
          "serials"_a)
      .def("close", [](CoordinatorProcess& coordinator) {
        const GilReleased released;
        coordinator.close();
      });
}

}  // namespace holdfast::bindings
