// How a simulated process gets into its worlds and groups: as a founder, or by a late join.
#include "sim/process.h"

#include <algorithm>
#include <array>

namespace holdfast::sim {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(20);
constexpr const char* kName = "simulated";
constexpr const char* kEvens = "evens";
constexpr const char* kSecond = "second";
constexpr CommId kEvensId{78};
// Few, so that calls go by full plans again before a process has made all of its calls.
constexpr std::uint64_t kCallsOnBase = 2;
// Small, so that an op takes several slices.
constexpr std::uint64_t kSlice = 4096;

}  // namespace

CommId world_of(CommId group) { return group == kOtherWorld ? kOtherWorld : kFirstWorld; }

KnownWorld known_world(ft::WorldView view, std::vector<ft::Message> shown) {
  return {kFirstWorld, kName, std::move(view), std::move(shown)};
}

ft::HostOfCard Process::host_of_card() const {
  if (!scenario_.signs) return {};
  return [](const std::string& card) { return card; };
}

ft::MembershipSettings Process::settings() const {
  ft::MembershipSettings settings;
  settings.heartbeat = heartbeat(scenario_);
  settings.silence = silence(scenario_);
  settings.elastic = scenario_.elastic;
  if (scenario_.sparse) settings.mesh = ft::Mesh::kSparse;
  if (scenario_.outside) settings.coordinator = kCoordinatorId;
  settings.notary = around_.notary();
  settings.host_of = host_of_card();
  return settings;
}

group::GroupConfig Process::base_config() const {
  group::GroupConfig config;
  config.name = kName;
  config.timeout = kTimeout;
  config.calls_on_base = kCallsOnBase;
  config.slice_bytes = kSlice;
  config.on_peer_loss = scenario_.raise ? comm::PeerLoss::kRaise : comm::PeerLoss::kContinue;
  config.on_hole = scenario_.zero_holes ? comm::OnHole::kZero : comm::OnHole::kRaise;
  // In some worlds the numbers of ops pass the limit of keys, in some the limit of 32 bits.
  constexpr std::array<std::uint64_t, 5> kFirstOps = {0, 0, 0, comm::kRoundBit - 4,
                                                      (1ULL << 32) - 4};
  config.next_sequence = kFirstOps[scenario_.seed / 3 % kFirstOps.size()];
  return config;
}

void Process::found(const ft::WorldView& view, std::vector<comm::HostPeer> flat) {
  group::GroupConfig config = base_config();
  config.id = kFirstWorld;
  config.shares_memory = scenario_.flat;
  config.flat = std::move(flat);
  group_ = found_world(view, std::move(config), world_);
  groups_[0] = group_;
  knows_step_ = true;
  if (scenario_.subgroup && rank_.value % 2 == 0) found_evens(view);
  if (!scenario_.two_worlds) return;
  config = base_config();
  config.name = kSecond;
  config.id = kOtherWorld;
  groups_[static_cast<std::size_t>(ProgramPart::kSecond)] =
      found_world(view, std::move(config), second_world_);
}

// Makes a world, and the group of all its ranks.
std::shared_ptr<group::Group> Process::found_world(const ft::WorldView& view,
                                                   group::GroupConfig config,
                                                   std::shared_ptr<group::World>& world) {
  ft::Membership membership(config.id, config.name, id_, view, settings());
  world = std::make_shared<group::World>(config.id, std::move(membership), router_);
  router_.add_world(world);
  config.rank = rank_;
  config.members = view.members;
  config.epoch = view.epoch;
  config.whole = true;
  for (int r = 0; r < scenario_.ranks; ++r) config.world_ranks.push_back({r});
  auto group = std::make_shared<group::Group>(std::move(config), world, shared_from_this(), clock_);
  world->add(group, clock_->now());
  return group;
}

void Process::found_evens(const ft::WorldView& view) {
  group::GroupConfig config = base_config();
  config.name = kEvens;
  config.id = kEvensId;
  config.rank = {rank_.value / 2};
  config.epoch = view.epoch;
  for (int r = 0; r < scenario_.ranks; r += 2) {
    config.world_ranks.push_back({r});
    config.members.push_back(view.members[static_cast<std::size_t>(r)]);
  }
  // In some worlds it is derived from the group of all.
  config.derived = scenario_.seed % 2 == 1;
  if (config.derived) config.lessors = group_->lessors_of(config.world_ranks);
  auto& group = groups_[static_cast<std::size_t>(ProgramPart::kEvens)];
  group = std::make_shared<group::Group>(std::move(config), world_, shared_from_this(), clock_);
  world_->add(group, clock_->now());
}

// Joins the group of the even ranks, in a world that this process has just joined.
void Process::look_for_evens() {
  if (!scenario_.subgroup || rank_.value % 2 != 0) return;
  group::GroupConfig base = base_config();
  base.name = kEvens;
  auto config = world_->admitted(std::move(base));
  // Possibly none of the group's members was left to report it.
  if (!config) return;
  auto& group = groups_[static_cast<std::size_t>(ProgramPart::kEvens)];
  group = std::make_shared<group::Group>(std::move(*config), world_, shared_from_this(), clock_);
  world_->add(group, clock_->now());
}

void Process::join(const std::vector<MemberId>& contacts) {
  const Rank wanted = rank_.value < scenario_.ranks ? rank_ : Rank{-1};
  joining_ = std::make_unique<ft::Joining>(kName, ft::Joiner{id_, wanted, host_},
                                           heartbeat(scenario_) * 4);
  for (const MemberId contact : contacts) joining_->add_contact(contact);
  router_.set_joining(joining_.get());
}

void Process::coordinate(std::uint64_t instance, std::uint64_t term, ft::Record* record) {
  ft::CoordinatorService::Settings settings;
  settings.heartbeat = heartbeat(scenario_);
  settings.silence = silence(scenario_);
  settings.instance = instance;
  settings.started = term;
  settings.record = record;
  settings.notary = around_.notary();
  settings.host_of = host_of_card();
  service_ = std::make_unique<ft::CoordinatorService>(settings);
  router_.set_service(service_.get());
}

bool Process::is_new_coordinator() const {
  if (!service_) return false;
  const auto worlds = service_->worlds();
  const auto known = std::count_if(worlds.begin(), worlds.end(),
                                   [](const auto& world) { return world.view.epoch > Epoch{}; });
  return known < (scenario_.two_worlds ? 2 : 1);
}

bool Process::take_order(const Fault& order, MemberId member) {
  if (!service_) return false;
  const Instant now = clock_->now();
  bool taken = false;
  for (const auto& world : service_->worlds()) {
    const auto& members = world.view.members;
    const auto at = std::find(members.begin(), members.end(), member);
    if (at == members.end()) continue;
    const Rank rank{static_cast<std::int32_t>(at - members.begin())};
    const ft::CoordinatorService::MemberOrder asked{world.name, rank, ""};
    Status done = Status::ok();
    if (order.kind == FaultKind::kKick) done = service_->kick(asked, now);
    if (order.kind == FaultKind::kDrain) done = service_->drain(asked, now + order.lasts);
    if (order.kind == FaultKind::kHold) done = service_->pause(world.name, now + order.lasts);
    taken = taken || done.is_ok();
  }
  return taken;
}

void Process::look_at_joining() {
  if (joining_->state() == ft::Joining::JoiningState::kRefused) {
    router_.set_joining(nullptr);
    return end_program("refused: " + joining_->refusal());
  }
  if (joining_->state() != ft::Joining::JoiningState::kAdmitted) return;
  router_.set_joining(nullptr);
  const ft::Message decision = joining_->decision();
  world_ = std::make_shared<group::World>(
      decision, ft::Membership(kName, id_, decision, settings()), router_);
  router_.add_world(world_);
  auto config = world_->admitted(base_config());
  joining_.reset();
  if (!config) return end_program("admitted to a world without its group");
  rank_ = config->rank;
  group_ = std::make_shared<group::Group>(std::move(*config), world_, shared_from_this(), clock_);
  groups_[0] = group_;
  world_->add(group_, clock_->now());
  look_for_evens();
  router_.deliver_early(clock_->now());
}

}  // namespace holdfast::sim
