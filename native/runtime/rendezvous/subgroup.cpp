#include "runtime/rendezvous/subgroup.h"

#include <algorithm>
#include <sstream>

#include "runtime/rendezvous/life.h"
#include "runtime/rendezvous/member_id.h"
#include "runtime/rendezvous/open_memory.h"

namespace holdfast::runtime {
namespace {

// Limit of the groups with one name and the same members that one world makes, one after the other.
constexpr std::uint64_t kMaxNumber = 1U << 20;

Rank rank_at(std::size_t index) { return {static_cast<std::int32_t>(index)}; }

std::string numbers_of(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank r : ranks) text += " " + std::to_string(r.value);
  return text;
}

}  // namespace

Subgroup::Subgroup(std::shared_ptr<Runtime> runtime, Store& store, const JoinRequest& request,
                   GroupPlace place, Instant deadline)
    : runtime_(std::move(runtime)),
      store_(store),
      request_(request),
      place_(std::move(place)),
      deadline_(deadline) {}

std::string Subgroup::key(const std::string& what) const {
  return place_of(request_) + "/in " + std::to_string(place_.world->id().value) + "/" +
         std::to_string(number_) + "/" + what;
}

std::string Subgroup::key(const std::string& what, MemberId member) const {
  return key(what) + "/" + std::to_string(member.value);
}

Subgroup::Made Subgroup::run() {
  // If the world made the group before this process was admitted, the other members have it
  // already.
  std::shared_ptr<group::Group> known;
  runtime_->run([&] {
    group::GroupConfig base = runtime_->base_config(request_);
    base.world_ranks = place_.ranks;
    auto config = place_.world->admitted(std::move(base));
    if (config) known = runtime_->enter_group(std::move(*config), place_.world);
  });
  if (known) return known;
  TRY(find_number());
  TRY(lay_open());
  return make();
}

// Finds the first number without a decision: the members of this world make the groups in the same
// order, and a process that was admitted meanwhile finds the number at which the others are.
Status Subgroup::find_number() {
  for (; number_ < kMaxNumber; ++number_) {
    const auto taken = decision();
    if (!taken.is_ok()) return taken.status();
    if (!taken.value()) return Status::ok();
  }
  return {Code::kConfigError, "group " + request_.group + " was made " +
                                  std::to_string(kMaxNumber) +
                                  " times by these members; give it another name"};
}

Status Subgroup::lay_open() {
  if (runtime_->shares_memory() && request_.size > 1) {
    if (auto area = runtime_->make_area(); area.is_ok()) {
      own_name_ = area.value().name;
      own_area_ = std::move(area).value().peer;
    }
  }
  return store_.set(key("area", runtime_->parts().self), own_name_ + "\n");
}

Subgroup::Made Subgroup::make() {
  Lookout lookout(*runtime_, deadline_);
  for (;;) {
    const auto moved = look_at_view();
    if (!moved.is_ok()) return moved.status();
    // Other members may have decided for a view that has ended here since.
    if (moved.value() && rounds_ > 1) {
      const auto taken = decision();
      if (!taken.is_ok()) return taken.status();
      if (taken.value()) return conclude(*taken.value());
    }
    const auto& options = runtime_->parts().options;
    const bool raises = options.on_peer_loss == comm::PeerLoss::kRaise || !options.fault_tolerance;
    if (const auto gone = vacant(); raises && !gone.empty()) {
      const auto decided = decide("lost" + numbers_of(gone));
      if (!decided.is_ok()) return decided.status();
      return conclude(decided.value());
    }
    const auto awaited = step(lookout);
    if (!awaited.is_ok()) return awaited.status();
    if (!awaited.value()) {
      const auto decided = decide("begins " + std::to_string(round_.epoch.value) + " " +
                                  std::to_string(random_number() | 1));
      if (!decided.is_ok()) return decided.status();
      return conclude(decided.value());
    }
    if (!lookout.rest()) return late(*awaited.value());
  }
}

// Whether another view has begun since the last look. A process that has left in peace stays in the
// view until a member misses it.
Result<bool> Subgroup::look_at_view() {
  Status fenced;
  std::optional<ViewRound> next;
  runtime_->run([&] {
    ft::Membership& membership = place_.world->membership();
    if (membership.fenced()) {
      fenced = {Code::kNotMember, "group " + request_.group +
                                      ": this process was voted out of the world that it is of"};
      return;
    }
    const ft::WorldView& view = place_.world->view();
    if (rounds_ == 0 || view.epoch != round_.epoch) next = round_of(view);
    const Instant now = runtime_->clock()->now();
    for (const MemberId member : (next ? *next : round_).members) {
      const auto state = runtime_->router().contact_of(member, now).state;
      const bool gone =
          state == ft::Contact::ContactState::kGone || state == ft::Contact::ContactState::kLeft;
      if (gone && member != ft::kNobody) membership.on_missed(member, now);
    }
  });
  if (!fenced.is_ok()) return fenced;
  if (!next) return false;
  round_ = std::move(*next);
  ++rounds_;
  return true;
}

Subgroup::ViewRound Subgroup::round_of(const ft::WorldView& view) const {
  ViewRound round;
  round.epoch = view.epoch;
  for (const Rank rank : place_.ranks) {
    const auto r = static_cast<std::size_t>(rank.value);
    const MemberId member = r < view.members.size() ? view.members[r] : ft::kNobody;
    round.members.push_back(member);
    round.hosts.push_back(member == ft::kNobody ? "" : runtime_->host_of(view.cards[r]));
  }
  round.votes.resize(round.members.size());
  return round;
}

std::vector<Rank> Subgroup::vacant() const {
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < round_.members.size(); ++r) {
    if (round_.members[r] == ft::kNobody) ranks.push_back(rank_at(r));
  }
  return ranks;
}

Result<std::optional<Rank>> Subgroup::step(const Lookout& lookout) {
  auto awaited = open_areas(lookout);
  if (!awaited.is_ok() || awaited.value()) return awaited;
  if (!round_.spoken) TRY(speak());
  return hear_votes(lookout);
}

Result<std::optional<Rank>> Subgroup::open_areas(const Lookout& lookout) {
  for (std::size_t& r = round_.looked_at; r < round_.members.size(); ++r) {
    const MemberId member = round_.members[r];
    if (member == ft::kNobody) continue;
    if (rank_at(r) == request_.rank) {
      if (own_area_) round_.areas.emplace(rank_at(r), *own_area_);
      continue;
    }
    const std::string where = key("area", member);
    auto is_there = lookout.sees(store_, where);
    if (!is_there.is_ok()) return is_there.status();
    if (!is_there.value()) return std::optional(rank_at(r));
    auto text = store_.get(where, kStoreLook);
    if (!text.is_ok()) return text.status();
    const std::string name = text.value().substr(0, text.value().find('\n'));
    if (name.empty() || round_.hosts[r] != runtime_->parts().host) continue;
    std::optional<comm::HostPeer> area;
    runtime_->run([&] { area = runtime_->open_area(member, name); });
    if (area) round_.areas.emplace(rank_at(r), std::move(*area));
  }
  return std::optional<Rank>();
}

// The areas of all members, with empty entries for vacant ranks unless `compact`. Empty: an area
// could not be opened.
std::vector<comm::HostPeer> Subgroup::areas(bool compact) const {
  std::vector<comm::HostPeer> all;
  for (std::size_t r = 0; r < round_.members.size(); ++r) {
    const auto area = round_.areas.find(rank_at(r));
    const bool is_vacant = round_.members[r] == ft::kNobody;
    if (area == round_.areas.end() && !is_vacant) return {};
    if (!is_vacant) all.push_back(area->second);
    if (is_vacant && !compact) all.emplace_back();
  }
  return all;
}

Status Subgroup::speak() {
  std::vector<MemberId> members;
  Rank self{};
  for (std::size_t r = 0; r < round_.members.size(); ++r) {
    if (rank_at(r) == request_.rank) self = rank_at(members.size());
    if (round_.members[r] != ft::kNobody) members.push_back(round_.members[r]);
  }
  std::string vote;
  runtime_->run([&] {
    const auto open = members.size() > 1 ? areas(true) : std::vector<comm::HostPeer>{};
    vote = usable_memory(*runtime_, members, open, self);
  });
  round_.spoken = true;
  const std::string round = std::to_string(round_.epoch.value);
  return store_.set(key(round, runtime_->parts().self), vote);
}

Result<std::optional<Rank>> Subgroup::hear_votes(const Lookout& lookout) {
  const std::string round = std::to_string(round_.epoch.value);
  for (std::size_t r = 0; r < round_.members.size(); ++r) {
    if (round_.members[r] == ft::kNobody || !round_.votes[r].empty()) continue;
    const std::string where = key(round, round_.members[r]);
    auto is_there = lookout.sees(store_, where);
    if (!is_there.is_ok()) return is_there.status();
    if (!is_there.value()) return std::optional(rank_at(r));
    auto vote = store_.get(where, kStoreLook);
    if (!vote.is_ok()) return vote.status();
    round_.votes[r] = std::move(vote).value();
  }
  return std::optional<Rank>();
}

Result<std::string> Subgroup::decide(const std::string& text) {
  return store_.set_once(key("decision"), text);
}

Result<std::optional<std::string>> Subgroup::decision() {
  auto is_there = store_.has(key("decision"));
  if (!is_there.is_ok()) return is_there.status();
  if (!is_there.value()) return std::optional<std::string>();
  auto text = store_.get(key("decision"), kStoreLook);
  if (!text.is_ok()) return text.status();
  return std::optional(std::move(text).value());
}

Subgroup::Made Subgroup::conclude(const std::string& decision) {
  std::istringstream in(decision);
  std::string what;
  in >> what;
  if (what == "lost") {
    std::vector<Rank> ranks;
    for (std::int32_t rank = 0; in >> rank;) ranks.push_back({rank});
    return lost(ranks);
  }
  Epoch epoch;
  CommId id;
  in >> epoch.value >> id.value;
  if (what == "begins" && !in.fail()) return begin(epoch, id);
  return Status{
      Code::kProtocolError,
      "group " + request_.group + ": damaged decision in the store: " + decision.substr(0, 64)};
}

Subgroup::Made Subgroup::begin(Epoch epoch, CommId id) {
  if (epoch != round_.epoch) {
    std::optional<ViewRound> past;
    runtime_->run([&] {
      if (const auto* view = place_.world->view_at(epoch)) past = round_of(*view);
    });
    if (!past) {
      return Status{Code::kProtocolError, "group " + request_.group + ": begins with view " +
                                              std::to_string(epoch.value) +
                                              " of its world, which this process has not seen"};
    }
    round_ = std::move(*past);
    // This process voted in that view, as did all others.
    round_.spoken = true;
    const auto awaited = step(Lookout(*runtime_, deadline_));
    if (!awaited.is_ok()) return awaited.status();
    if (awaited.value()) return late(*awaited.value());
  }
  group::GroupConfig config = runtime_->base_config(request_);
  config.id = id;
  config.rank = request_.rank;
  config.epoch = epoch;
  config.members = round_.members;
  config.world_ranks = place_.ranks;
  std::vector<std::string> said = round_.votes;
  std::erase(said, "");
  agree_on_memory(said, areas(false), config);
  std::shared_ptr<group::Group> group;
  runtime_->run([&] {
    config.whole = place_.ranks.size() == place_.world->view().members.size();
    group = runtime_->enter_group(std::move(config), place_.world);
  });
  return group;
}

Status Subgroup::lost(const std::vector<Rank>& ranks) const {
  return Status(Code::kPeerLost,
                "group " + request_.group + ": lost " + comm::rank_list(ranks) + " of " +
                    std::to_string(request_.size) +
                    " before it was made (option on_peer_loss=raise); make it of those that are "
                    "there, or when they have come back")
      .about(ranks, round_.epoch);
}

Status Subgroup::late(Rank awaited) const {
  return Status(Code::kTimeout, "group " + request_.group + ": rank " +
                                    std::to_string(awaited.value) + " of " +
                                    std::to_string(request_.size) +
                                    " did not make it, too, in time (option connect_timeout); "
                                    "all ranks of a group make it, in the same order")
      .about({awaited}, {});
}

}  // namespace holdfast::runtime
