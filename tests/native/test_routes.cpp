// Which way each of some thousand calls goes: routes.tsv has a line for each. ROUTES_OUT=file
// writes the table anew.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "comm/plan/route.h"
#include "comm/view/view_communicator.h"
#include "device_comm/slices.h"
#include "device_comm/two_level/script.h"
#include "host_areas.h"
#include "route_cases.h"

namespace holdfast::testing {
namespace {

using comm::OpRequest;
using comm::Plan;
using comm::Way;

std::string text_of(const Plan& plan) {
  const auto or_none = [](std::string_view text) { return text.empty() ? "-" : text; };
  const auto lane = [&]() -> std::string_view {
    if (!plan.lane) return "-";
    return *plan.lane == comm::SliceLane::kSmall ? "small" : "bulk";
  };
  const bool in_view = plan.way <= Way::kRepair;
  std::ostringstream out;
  out << row_of(plan.way).name << " "
      << or_none(plan.algorithm == nullptr ? "" : plan.algorithm->algorithm)
      << (plan.levels ? " levels " : " level ")
      << (plan.codec == nullptr ? "-" : plan.codec->text()) << " " << lane() << " " << plan.pieces
      << " " << (in_view ? ending_name(plan.ending) : "-") << " "
      << (plan.replicated_as ? comm::collective_name(*plan.replicated_as) : "-");
  return out.str();
}

comm::SliceReach reach_of(Shared shared) {
  switch (shared) {
    case Shared::kNothing:
    case Shared::kFlat: return comm::SliceReach::kNothing;
    case Shared::kSlices: return comm::SliceReach::kAreas;
    case Shared::kMemory: return comm::SliceReach::kMemory;
  }
  return {};
}

comm::CodecOption option_of(const RouteCase& c) {
  if (c.default_codec.empty()) return {};
  return {std::make_shared<const compress::Codec>(compress::Codec::parse(c.default_codec).value()),
          kRouteCodecBytes};
}

comm::Placement place_of(const RouteWorld& world) {
  return {static_cast<int>(world.hosts.size()),
          1 + *std::max_element(world.hosts.begin(), world.hosts.end()),
          world.shared != Shared::kNothing};
}

comm::DeviceFacts devices_of(const RouteCase& c, const comm::CodecOption& codec) {
  const RouteDevices& devices = *c.devices;
  // As Node has it: what is encoded by an option goes no other way past the host.
  return {.direct = devices.direct && codec.codec == nullptr,
          .direct_bytes = devices.direct_bytes,
          .encoded = devices.encoded,
          .encoded_bytes = devices.encoded_bytes,
          .codec = codec,
          .slice_bytes = devices.slice_bytes,
          .place = place_of(c.world),
          .present = comm::spread_of(c.world.hosts),
          .agreed = devices.agreed};
}

std::string way_of(const RouteCase& c) {
  RouteMemory memory;
  OpRequest request = request_of(c, memory);
  request.how.on_device = c.devices != nullptr;
  request.how.at_entrance = c.at_entrance;
  comm::PlanTable table;
  if (!c.plan.empty()) table = comm::PlanTable::parse(c.plan).value();
  const bool shared = c.world.shared != Shared::kNothing;
  const comm::Placement place = place_of(c.world);
  const auto fabric = topology::Fabric::of_hosts(c.world.hosts, table.link(shared)).value();
  comm::RouteFacts facts{
      .codec = option_of(c),
      .table = &table,
      .algorithm = c.default_algorithm,
      .place = place,
      .view = {place.ranks, &fabric, shared, reach_of(c.world.shared), c.world.protect},
      .repair = c.repair};
  if (c.devices == nullptr) return text_of(route(request, facts));
  const comm::DeviceFacts devices = devices_of(c, facts.codec);
  facts.devices = &devices;
  const Plan plan = route(request, facts);
  if (plan.way != Way::kStaged) return text_of(plan);
  const auto slices = device_comm::slices_of(request, place.ranks, devices.slice_bytes);
  CHECK(static_cast<int>(slices.size()) == plan.pieces);
  facts.devices = nullptr;
  return "staged " + std::to_string(plan.pieces) + " of " + text_of(route(slices[0], facts));
}

TEST_CASE("every call goes the way that the table has") {
  std::ostringstream said;
  for (const RouteCase& c : RouteCases::all()) {
    said << text_of(c) << "\t" << way_of(c) << "\n";
  }
  if (const char* const out = std::getenv("ROUTES_OUT")) {  // NOLINT(concurrency-mt-unsafe)
    std::ofstream(out) << said.str();
    return;
  }
  std::ifstream file(ROUTES);
  std::istringstream found(said.str());
  std::string wanted;
  std::string line;
  while (std::getline(file, wanted)) {
    std::getline(found, line);
    CHECK(line == wanted);
  }
  CHECK_FALSE(std::getline(found, line));
}

class NoOwner final : public comm::ViewOwner {
 public:
  void on_op_ended(const std::shared_ptr<comm::OpWork>&, comm::Held) override {}
  void on_stable(OpSeq) override {}
  void on_missed(Rank, const Status&) override {}
  void on_view_failed(const Status&) override {}
};

topology::Fabric fabric_of(const RouteWorld& world) {
  const bool shared = world.shared != Shared::kNothing;
  const auto& link = shared ? topology::kShmLink : topology::kTcpLink;
  return topology::Fabric::of_hosts(world.hosts, link).value();
}

comm::CommunicatorConfig config_of(const RouteWorld& world,
                                   std::vector<comm::testing::HostAreas>& areas) {
  comm::CommunicatorConfig config;
  const std::size_t n = world.hosts.size();
  config.view.members.resize(n);
  config.ranks.resize(n);
  config.group_size = static_cast<int>(n);
  config.links.resize(n);
  config.protect = world.protect;
  const bool shared = world.shared != Shared::kNothing;
  config.fabric = fabric_of(world);
  if (!shared) return config;
  const auto peers = areas.emplace_back(static_cast<int>(n)).peers(world.shared == Shared::kMemory);
  config.flat.emplace(config.rank, Epoch{}, peers);
  if (world.shared == Shared::kFlat) return config;
  for (const auto lane : {comm::SliceLane::kBulk, comm::SliceLane::kSmall}) {
    config.slices.emplace_back(config.rank, Epoch{}, peers, comm::kSliceBytes, lane);
  }
  return config;
}

TEST_CASE("a view's communicator goes by the facts that the table is made by") {
  const RouteWorld worlds[] = {{{0, 0}, Shared::kMemory},           {{0, 0, 0}, Shared::kSlices},
                               {{0, 0}, Shared::kFlat, false},      {{0}, Shared::kNothing},
                               {{0, 0, 1, 1}, Shared::kNothing},    {{0, 0, 0, 1, 1}},
                               {{0, 1, 2}, Shared::kNothing, false}};
  std::vector<comm::testing::HostAreas> areas;
  NoOwner owner;
  RouteMemory memory;
  for (const RouteWorld& world : worlds) {
    comm::ViewCommunicator communicator(config_of(world, areas), owner,
                                        std::make_shared<MonotonicClock>());
    const comm::Placement place = place_of(world);
    const topology::Fabric fabric = fabric_of(world);
    const comm::ViewFacts view{place.ranks, &fabric, place.shared, reach_of(world.shared),
                               world.protect};
    for (const Collective collective : kRouted) {
      for (const std::uint64_t elements : {0U, 1024U, 10'000U, 200'000U}) {
        const OpRequest request = request_of({world, collective, elements}, memory);
        const Plan plan = communicator.plan_of(request);
        CHECK(text_of(plan) == text_of(route_in_view(request, view)));
        CHECK(plan.reason == route_in_view(request, view).reason);
      }
    }
  }
}

TEST_CASE("devices have a script for what goes in two levels, and for nothing else") {
  for (const Collective collective : kRouted) {
    RouteCase c{{{0, 0, 1, 1}}, collective, 1 << 20, Blocks::kEqual};
    static const RouteDevices devices{};
    c.devices = &devices;
    RouteMemory memory;
    const Plan plan = route_on_device(request_of(c, memory), devices_of(c, {}));
    const bool bare = collective == Collective::kBarrier;
    CHECK((plan.way == Way::kTwoLevel) ==
          (!bare && device_comm::two_level_steps(collective).has_value()));
  }
}

TEST_CASE("each way and each reason has its words") {
  for (std::size_t i = 0; i < comm::kWays.size(); ++i) {
    CHECK(comm::kWays[i].way == static_cast<Way>(i));
  }
  for (int i = 0; i <= static_cast<int>(comm::Reason::kDisagreed); ++i) {
    CHECK(!comm::reason_name(static_cast<comm::Reason>(i)).empty());
    CHECK(!comm::reason_text(static_cast<comm::Reason>(i)).empty());
  }
}

}  // namespace
}  // namespace holdfast::testing
