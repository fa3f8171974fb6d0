// Which map of links a group's ops go by, and from which op on.
// Why: docs/decisions/0147-a-map-is-taken-between-two-calls.md
#include "base/planted.h"
#include "group/group.h"
#include "group/world.h"
#include "topology/link_map.h"

namespace holdfast::group {

// By the maps of which ops may still run.
comm::Fabrics Group::fabrics() const {
  const std::vector<Rank> ranks = roster_.world_ranks_present();
  const bool shares_memory = shares_memory_.load(std::memory_order_relaxed);
  const topology::Fabric plain =
      topology::Fabric::of_domains(
          world_->domains(ranks),
          {shares_memory ? config_.shm_link : config_.tcp_link, config_.shm_link})
          .value();
  const auto on = [&](const comm::TakenMap& taken) {
    return topology::Fabric(plain).on_map(topology::part_of(taken.map, ranks));
  };
  const auto& [first, taken] = maps_.all().front();
  comm::Fabrics all(on(taken), taken.version);
  for (std::size_t i = 1; i < maps_.all().size(); ++i) {
    const MapHistory::MapFrom& next = maps_.all()[i];
    all.add(next.from, on(next.taken), next.taken.version);
  }
  return all;
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
  if (!comm_) return;  // the next view's communicator goes by it
  const comm::Fabrics all = fabrics();
  comm_->take_fabric(first, all.latest(), taken.version);
}

}  // namespace holdfast::group
