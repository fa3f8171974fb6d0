#include "coordinator.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gil.h"
#include "raise.h"
#include "runtime/coordinator/etcd/trust.h"
#include "runtime/coordinator/process.h"
#include "runtime/relay/relay_process.h"
#include "store.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using runtime::CoordinatorProcess;
using runtime::EtcdLease;

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

std::shared_ptr<EtcdLease> make_lease(const std::string& urls, std::int64_t ttl_s,
                                      const std::string& who, const std::string& authorities,
                                      const std::string& certificate, const std::string& key) {
  EtcdLease::LeaseSettings settings;
  settings.urls = value_or_raise(runtime::parse_etcd_urls(urls));
  settings.tls =
      value_or_raise(runtime::read_etcd_trust(settings.urls, {authorities, certificate, key}));
  settings.ttl = std::chrono::seconds(ttl_s);
  if (settings.ttl < runtime::kShortestTtl || settings.ttl > runtime::kLongestTtl) {
    raise_if({Code::kConfigError, "--ttl " + std::to_string(ttl_s) + "; accepted: " +
                                      std::to_string(runtime::kShortestTtl.count()) + " to " +
                                      std::to_string(runtime::kLongestTtl.count()) + " seconds"});
  }
  settings.who = who;
  return std::make_shared<EtcdLease>(std::move(settings));
}

void bind_lease(nb::module_& m) {
  nb::class_<EtcdLease>(m, "EtcdLease")
      .def_static("create", make_lease, "urls"_a, "ttl_s"_a, "who"_a, "authorities"_a = "",
                  "certificate"_a = "", "key"_a = "")
      .def(
          "acquire",
          [](EtcdLease& lease, double patience_s) {
            const auto acquire = [&] {
              const GilReleased released;
              return lease.acquire(seconds(patience_s));
            };
            return value_or_raise(acquire());
          },
          "patience_s"_a)
      .def(
          "wait_lost",
          [](EtcdLease& lease, double patience_s) {
            const GilReleased released;
            return lease.wait_lost(seconds(patience_s));
          },
          "patience_s"_a)
      .def("still_leads", &EtcdLease::still_leads)
      .def_prop_ro("why_lost", &EtcdLease::why_lost)
      .def_prop_ro("leader", &EtcdLease::leader)
      .def_prop_ro("term", &EtcdLease::term)
      .def("close", [](EtcdLease& lease) {
        const GilReleased released;
        lease.close();
      });
}

// (registered, waiting, pairs, refused, bytes passed on)
nb::tuple counts_of(const runtime::RelayServer::RelayCounts& counts) {
  return nb::make_tuple(
      counts.lines.registered, counts.lines.waiting, counts.lines.pairs,
      std::accumulate(counts.lines.refused.begin(), counts.lines.refused.end(), std::uint64_t{0}),
      counts.passed);
}

void bind_relay(nb::module_& m) {
  using runtime::RelayProcess;
  nb::class_<RelayProcess>(m, "Relay")
      .def_static(
          "create",
          [](const std::string& address, std::uint16_t port, const std::string& secret_file,
             const std::string& audit_file, const std::vector<std::string>& revoked,
             const std::optional<runtime::Options>& pages) {
            return value_or_raise(
                RelayProcess::create({address, port, secret_file, audit_file, serials_of(revoked),
                                      pages.value_or(runtime::Options())}));
          },
          "address"_a, "port"_a, "secret_file"_a, "audit_file"_a = "",
          "revoked"_a = std::vector<std::string>(), "pages"_a = nb::none())
      .def_prop_ro("port", &RelayProcess::port)
      .def_prop_ro("http_address", &RelayProcess::http_address)
      .def("counts", [](const RelayProcess& relay) { return counts_of(relay.counts()); })
      .def(
          "revoke",
          [](RelayProcess& relay, const std::vector<std::string>& texts) {
            relay.revoke(serials_of(texts));
          },
          "serials"_a)
      .def("close", [](RelayProcess& relay) {
        const GilReleased released;
        relay.close();
      });
}

}  // namespace

void bind_coordinator(nb::module_& m) {
  bind_lease(m);
  bind_relay(m);
  nb::class_<CoordinatorProcess>(m, "Coordinator")
      .def_static(
          "create",
          [](const runtime::Options& options, std::size_t min_peers, const std::string& record,
             std::optional<double> grace, double keep, const nb::object& store,
             const std::vector<std::string>& revoked, std::shared_ptr<EtcdLease> lease,
             const std::vector<std::string>& quotas) {
            runtime::CoordinatorOptions own;
            for (const std::string& quota : quotas) raise_if(own.quotas.add(quota));
            own.min_peers = min_peers;
            own.record_file = record;
            if (grace) own.grace = seconds(*grace);
            own.keep = seconds(keep);
            own.lease = std::move(lease);
            if (!store.is_none()) own.record_store = std::make_shared<PythonStore>(store);
            own.revoked = serials_of(revoked);
            return value_or_raise(CoordinatorProcess::create(options, own));
          },
          "options"_a, "min_peers"_a, "record"_a = "", "grace"_a = nb::none(),
          "keep"_a = kKeepSeconds, "store"_a = nb::none(), "revoked"_a = std::vector<std::string>(),
          "lease"_a = nb::none(), "quotas"_a = std::vector<std::string>())
      .def_prop_ro("port", &CoordinatorProcess::port)
      .def_prop_ro("http_address", &CoordinatorProcess::http_address)
      .def("worlds", worlds)
      .def("relay_counts",
           [](const CoordinatorProcess& coordinator) {
             return counts_of(coordinator.relay_counts());
           })
      .def(
          "revoke",
          [](CoordinatorProcess& coordinator, const std::vector<std::string>& texts) {
            const auto serials = serials_of(texts);
            const GilReleased released;
            coordinator.revoke(serials);
          },
          "serials"_a)
      .def("look_at_certificates",
           [](CoordinatorProcess& coordinator) {
             const GilReleased released;
             return coordinator.look_at_certificates();
           })
      .def("close", [](CoordinatorProcess& coordinator) {
        const GilReleased released;
        coordinator.close();
      });
}

}  // namespace holdfast::bindings
