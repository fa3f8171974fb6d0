// Which way each of some thousand calls goes: routes.tsv has a line for each. ROUTES_OUT=file
// writes the table anew.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <variant>
#include <vector>

// What is decided is decided in private, today.
#define private public
#include "comm/view/view_communicator.h"
#include "device_comm/direct/direct.h"
#include "device_comm/staged.h"
#undef private

#include "comm/call/replicated.h"
#include "comm/call/request_check.h"
#include "comm/plan/path_agreement.h"
#include "comm/plan/planner.h"
#include "device/emulated_driver.h"
#include "device_comm/slices.h"
#include "host_areas.h"
#include "route_cases.h"

namespace holdfast::testing {
namespace {

using comm::OpRequest;
using comm::ViewCommunicator;
using runtime::Staged;

class NoOwner final : public comm::ViewOwner {
 public:
  void on_op_ended(const std::shared_ptr<comm::OpWork>&, comm::Held) override {}
  void on_stable(OpSeq) override {}
  void on_missed(Rank, const Status&) override {}
  void on_view_failed(const Status&) override {}
};

// Where the ranks are is all that anybody asks of it.
class PlacedGroup final : public comm::Communicator {
 public:
  PlacedGroup(const RouteWorld& world, bool agreed) : hosts_(world.hosts) {
    placement_ = {static_cast<int>(hosts_.size()),
                  1 + *std::max_element(hosts_.begin(), hosts_.end()),
                  world.shared != Shared::kNothing};
    using Agreement = comm::PathAgreement;
    for (const auto& agreement : {path_, codec_}) {
      const std::uint64_t trial = agreement->choose({}, {}).value().trial;
      while (agreement->choose({}, Duration{}).is_ok()) continue;
      agreement->conclude(trial,
                          agreed ? Agreement::Verdict::kDirect : Agreement::Verdict::kStaged);
    }
  }

  Rank rank() const override { return {0}; }
  int size() const override { return placement_.ranks; }
  comm::View view() const override { return {}; }
  std::vector<Rank> live_ranks() const override { return {}; }
  const std::string& name() const override { return name_; }
  comm::Placement placement() const override { return placement_; }
  std::vector<int> hosts() const override { return hosts_; }
  std::shared_ptr<comm::PathAgreement> path_agreement() override { return path_; }
  std::shared_ptr<comm::PathAgreement> codec_agreement() override { return codec_; }
  std::vector<std::string> transports() const override { return {}; }
  Result<std::shared_ptr<comm::Work>> start(OpRequest) override { return Status(); }
  std::shared_ptr<comm::Work> advance(Duration) override { return nullptr; }
  bool is_newcomer() const override { return false; }
  void wake() override {}
  void abort(const std::string&) override {}
  Status close(Duration) override { return {}; }
  Status health() const override { return {}; }

 private:
  std::vector<int> hosts_;
  comm::Placement placement_;
  std::string name_ = "placed";
  std::shared_ptr<comm::PathAgreement> path_ = std::make_shared<comm::PathAgreement>();
  std::shared_ptr<comm::PathAgreement> codec_ = std::make_shared<comm::PathAgreement>();
};

std::string say(std::string_view way, std::string_view algorithm, bool levels,
                const std::string& codec, std::string_view lane, int pieces,
                std::string_view ending, std::string_view carried) {
  const auto or_none = [](std::string_view text) { return text.empty() ? "-" : text; };
  std::ostringstream out;
  out << way << " " << or_none(algorithm) << (levels ? " levels " : " level ") << or_none(codec)
      << " " << or_none(lane) << " " << pieces << " " << or_none(ending) << " " << or_none(carried);
  return out.str();
}

// Asks what decides today.
class Decider {
 public:
  std::string way_of(const RouteCase& c) {
    OpRequest request = request_of(c, memory_);
    if (c.devices != nullptr) return way_on_device(c, request);
    request.at_entrance = c.at_entrance;
    return way_on_host(c, request);
  }

 private:
  std::string way_on_device(const RouteCase& c, OpRequest& request) {
    PlacedGroup group(c.world, c.devices->agreed);
    request.on_device = true;
    const auto staged = staged_for(c);
    const auto chosen = staged->choose(group, request).value();
    const std::string codec = request.codec ? request.codec->text() : "";
    switch (chosen.way) {
      case Staged::Way::kDirect: return say("direct", "", false, codec, "", 1, "", "");
      case Staged::Way::kTwoLevel: return say("levels", "", true, codec, "", 1, "", "");
      case Staged::Way::kEncoded: return say("coded", "", false, codec, "", 1, "", "");
      case Staged::Way::kStaged: break;
    }
    const auto slices = runtime::slices_of(request, group.size(), c.devices->slice_bytes);
    return "staged " + std::to_string(slices.size()) + " of " + way_on_host(c, slices.front());
  }

  std::string way_on_host(const RouteCase& c, OpRequest request) {
    if (!c.default_codec.empty() && !request.codec) {
      const auto codec = codec_of(c.default_codec);
      if (comm::is_worth_coding(request, *codec, kRouteCodecBytes)) request.codec = codec;
    }
    PlacedGroup group(c.world, true);
    comm::PlannerSettings settings;
    if (!c.plan.empty()) settings.table = comm::PlanTable::parse(c.plan).value();
    if (!c.default_algorithm.empty()) settings = {};
    CHECK(comm::Planner(settings, clock_).choose(group, request).is_ok());
    // As ft::Group::start().
    if (request.algorithm.empty() && !request.codec &&
        comm::find_algorithm(request.collective, c.default_algorithm) != nullptr &&
        !c.default_algorithm.empty()) {
      request.algorithm = c.default_algorithm;
    }
    comm::Replicated replicated;
    if (c.world.protect && c.world.shared == Shared::kNothing &&
        comm::can_be_replicated(request, group.size())) {
      request = comm::replicated_by(request, replicated, {0}, group.size());
    }
    return way_in_view(c, request);
  }

  std::string way_in_view(const RouteCase& c, const OpRequest& request) {
    ViewCommunicator& comm = communicator_for(c);
    auto work = std::make_shared<comm::OpWork>(request, OpSeq{1}, nullptr, clock_);
    comm::OpLaunch launch{work, std::make_shared<const OpRequest>(request), {}};
    if (c.repair) launch.repair.emplace();
    const std::string codec = request.codec ? request.codec->text() : "";
    const std::string_view carried =
        request.called ? comm::collective_name(request.collective) : std::string_view();
    if (comm.is_flat(launch)) return say("flat", "", false, codec, "", 1, "slots", carried);
    ViewCommunicator::Active active;
    active.launch = std::move(launch);
    active.bytes = comm::payload_bytes(request);
    const bool sliced = !c.repair && comm.is_sliced(request);
    if (sliced) active.slices = &comm.lane_for(request);
    if (!sliced || !active.slices->exposes(request)) comm.choose_ending(active);
    const bool alone = !c.world.protect || c.world.hosts.size() == 1;
    const std::string_view ending = active.kept ? (alone ? "nothing" : "kept") : "round";
    if (c.repair) return say("repair", "", false, codec, "", 1, ending, carried);
    if (sliced) {
      const bool small = active.slices == &comm.config_.slices[1];
      return say("slices", "", false, codec, small ? "small" : "bulk", 1, ending, carried);
    }
    const comm::AlgorithmRow& row = comm.runs_.row_for(request);
    return say("schedule", row.algorithm, row.level_cost != nullptr || row.sums_up_in_hosts, codec,
               "", comm.runs_.pieces_for(request), ending, carried);
  }

  static std::shared_ptr<const compress::Codec> codec_of(const std::string& text) {
    return std::make_shared<const compress::Codec>(compress::Codec::parse(text).value());
  }

  std::shared_ptr<Staged> staged_for(const RouteCase& c) {
    auto& staged = staged_[{c.devices, c.default_codec}];
    if (staged != nullptr) return staged;
    device::HostMemory host{[](std::uint64_t bytes) { return new std::byte[bytes]; },
                            [](std::byte* data) { delete[] data; }};
    auto device = device::Device::open(driver_.table, 0, std::move(host));
    // As Node sets them: what is encoded by an option goes no other way past the host.
    runtime::StagedSettings settings{c.devices->slice_bytes,
                                     c.devices->direct && c.default_codec.empty(),
                                     c.devices->direct_bytes,
                                     {c.devices->encoded, c.devices->encoded_bytes, nullptr, 0}};
    if (!c.default_codec.empty()) {
      settings.encoded.codec = codec_of(c.default_codec);
      settings.encoded.codec_least_bytes = kRouteCodecBytes;
    }
    staged = Staged::make(device.value(), {}, settings).value();
    return staged;
  }

  ViewCommunicator& communicator_for(const RouteCase& c) {
    const RouteWorld& world = c.world;
    auto& comm = communicators_[{world.hosts, world.shared, world.protect, c.plan}];
    if (comm != nullptr) return *comm;
    comm::CommunicatorConfig config;
    config.view.members.resize(world.hosts.size());
    for (std::size_t r = 0; r < world.hosts.size(); ++r) {
      config.ranks.push_back({static_cast<std::int32_t>(r)});
    }
    config.group_size = static_cast<int>(world.hosts.size());
    config.links.resize(world.hosts.size());
    config.hosts = world.hosts;
    const bool shared = world.shared != Shared::kNothing;
    config.link_model =
        (c.plan.empty() ? comm::PlanTable() : comm::PlanTable::parse(c.plan).value()).link(shared);
    config.protect = world.protect;
    if (shared) {
      auto& areas = areas_.emplace_back(static_cast<int>(world.hosts.size()));
      const auto peers = areas.peers(world.shared == Shared::kMemory);
      config.flat.emplace(config.rank, Epoch{}, peers);
      if (world.shared != Shared::kFlat) {
        for (const auto lane : {comm::SliceLane::kBulk, comm::SliceLane::kSmall}) {
          config.slices.emplace_back(config.rank, Epoch{}, peers, kRouteSliceBytes, lane);
        }
      }
    }
    comm = std::make_unique<ViewCommunicator>(std::move(config), owner_, clock_);
    return *comm;
  }

  RouteMemory memory_;
  NoOwner owner_;
  const std::shared_ptr<const Clock> clock_ = std::make_shared<MonotonicClock>();
  device::EmulatedDriver driver_ = device::make_emulated_driver({});
  std::deque<comm::testing::HostAreas> areas_;
  std::map<std::pair<const RouteDevices*, std::string>, std::shared_ptr<Staged>> staged_;
  std::map<std::tuple<std::vector<int>, Shared, bool, std::string>,
           std::unique_ptr<ViewCommunicator>>
      communicators_;
};

TEST_CASE("every call goes the way that the table has") {
  Decider decider;
  std::ostringstream said;
  for (const RouteCase& c : RouteCases::all()) {
    said << text_of(c) << "\t" << decider.way_of(c) << "\n";
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

}  // namespace
}  // namespace holdfast::testing
