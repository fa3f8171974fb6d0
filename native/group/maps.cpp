// Which map of links a group's ops go by, and from which op on.
// Why: docs/decisions/0147-a-map-is-taken-between-two-calls.md
#include <algorithm>
#include <optional>

#include "base/planted.h"
#include "group/group.h"
#include "group/world.h"
#include "topology/link_map.h"

namespace holdfast::group {

namespace {

// By index of `before`, the index in `now` of the same rank, or -1.
std::vector<int> places(const std::vector<Rank>& before, const std::vector<Rank>& now) {
  std::vector<int> place;
  place.reserve(before.size());
  for (const Rank rank : before) {
    const auto found = std::find(now.begin(), now.end(), rank);
    place.push_back(found == now.end() ? -1 : static_cast<int>(found - now.begin()));
  }
  return place;
}

}  // namespace

// Those that are there, and those that were when the world seated somebody last. Nothing: nobody
// has gone since. It follows from the world's view and the group's list of ranks, which all members
// have alike, whichever views they have seen.
std::optional<std::vector<Rank>> Group::base_of_plans() const {
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < roster_.members.size(); ++r) {
    const Rank rank = roster_.world_ranks[r];
    if (roster_.members[r] != ft::kNobody || world_->was_vacated(rank)) ranks.push_back(rank);
  }
  if (ranks.size() == roster_.present.size()) return std::nullopt;
  return ranks;
}

topology::Fabric Group::fabric_of(const std::vector<Rank>& world_ranks) const {
  const bool shares_memory = shares_memory_.load(std::memory_order_relaxed);
  return topology::Fabric::of_domains(
             world_->domains(world_ranks),
             {shares_memory ? config_.shm_link : config_.tcp_link, config_.shm_link})
      .value();
}

// By the maps of which ops may still run. After a loss the first calls go by a fabric that starts
// from the base, and later ones by their own.
comm::Fabrics Group::fabrics() const {
  const std::vector<Rank> ranks = roster_.world_ranks_present();
  const topology::Fabric plain = fabric_of(ranks);
  const auto base_ranks = base_of_plans();
  const auto on = [](const topology::Fabric& fabric, const comm::TakenMap& taken,
                     const std::vector<Rank>& its_ranks) {
    return topology::Fabric(fabric).on_map(topology::part_of(taken.map, its_ranks));
  };
  const OpSeq full{view_first_.value + config_.calls_on_base};
  comm::Fabrics all(plain);
  for (std::size_t i = 0; i < maps_.all().size(); ++i) {
    const auto& [from, taken] = maps_.all()[i];
    const bool is_last = i + 1 == maps_.all().size();
    topology::Fabric fabric = on(plain, taken, ranks);
    // What is new in this view has no plans to start from.
    const bool starts_from_base = base_ranks && fabric.map() != nullptr && from < view_first_;
    if (starts_from_base) {
      auto base =
          std::make_shared<const topology::Fabric>(on(fabric_of(*base_ranks), taken, *base_ranks));
      if (base->map() != nullptr) {
        all.add(from, topology::Fabric(fabric).after(base, places(*base_ranks, ranks)),
                taken.version);
        if (is_last || full < maps_.all()[i + 1].from) {
          all.add(full, std::move(fabric), taken.version);
        }
        continue;
      }
    }
    all.add(from, std::move(fabric), taken.version);
  }
  return all;
}

// All members have the same reports, and so the same number.
void Group::note_first_call(const GroupReports& reports) {
  std::uint64_t first = 0;
  for (const auto& [member, report] : reports) first = std::max(first, report->next_sequence);
  if (is_planted(Planted::kOwnCount)) first = ops_.first_uncalled();
  view_first_ = OpSeq{first};
}

// The maps of ops that are under way are older: what they go by is found when they are called.
void Group::plan_ahead() {
  const topology::Fabric& last = comm_->config().fabric.latest();
  const topology::Fabric& first = comm_->config().fabric.of(OpSeq{});
  if (first.base() != nullptr && last.base() == nullptr) {
    plans_->expect(last, *first.base(), first.place());
  }
}

Status Group::take_map(std::shared_ptr<const std::string> text) {
  if (!config_.whole) {
    return {Code::kUnsupported, "group " + name() +
                                    ": a map of links is of all ranks of the world; accepted: the "
                                    "group that has them"};
  }
  auto parsed = topology::LinkMap::parse(*text);
  if (!parsed.is_ok()) return parsed.status();
  auto map = std::make_shared<const topology::LinkMap>(std::move(parsed).value());
  if (map->size() != size()) {
    return {Code::kConfigError, "the map of links has " + std::to_string(map->size()) +
                                    " ranks; accepted: " + std::to_string(size()) + ", as group " +
                                    name() + " has"};
  }
  return callers_.take_map(
      std::move(map), std::move(text), name(), [&](OpSeq first, const comm::TakenMap& taken) {
        executor_->submit(
            [self = shared_from_this(), first, taken] { self->go_by_map(first, taken); }, true);
      });
}

// Groups that were derived from another have the same map, and may be many.
void Group::tell_of_map() {
  if (config_.whole && !config_.derived) watch_.took_map(config_.name, maps_.latest());
}

void Group::go_by_map(OpSeq first, const comm::TakenMap& taken) {
  if (is_planted(Planted::kMapAtOnce)) first = OpSeq{ops_.first_running()};
  maps_.take(first, taken, OpSeq{ops_.first_in_question()});
  world_->set_map(taken);
  tell_of_map();
  if (comm_) comm_->take_fabrics(fabrics());  // else the next view's communicator goes by it
}

}  // namespace holdfast::group
