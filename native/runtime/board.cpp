#include "runtime/board.h"

#include "runtime/card.h"
#include "runtime/json.h"

namespace holdfast::runtime {
namespace {

using metrics::Family;
using metrics::Type;

constexpr Family kWorlds{"holdfast_coordinator_worlds", Type::kGauge, "", "Worlds it decides for."};
constexpr Family kEpoch{"holdfast_coordinator_epoch", Type::kGauge, "", "View of a world."};
constexpr Family kMembers{"holdfast_coordinator_members", Type::kGauge, "",
                          "Members of that view."};
constexpr Family kRanks{"holdfast_coordinator_ranks", Type::kGauge, "",
                        "Ranks of that view, vacant ones included."};
constexpr Family kWaiting{"holdfast_coordinator_waiting", Type::kGauge, "",
                          "Strangers that wait for a step boundary."};
constexpr Family kBlocked{"holdfast_coordinator_blocked", Type::kGauge, "",
                          "1: a loss cannot be decided."};

std::string label(const std::string& name, const std::string& value) {
  return json_text(name) + ":" + json_text(value);
}

}  // namespace

std::vector<Board::Target> Board::targets_of(const ft::WorldView& view) {
  std::vector<Target> targets;
  for (std::size_t r = 0; r < view.members.size() && r < view.cards.size(); ++r) {
    if (view.members[r] == ft::kNobody) continue;
    const auto card = parse_card(view.cards[r]);
    if (!card.is_ok() || card.value().http.empty()) continue;
    targets.push_back({r, card.value().http, card.value().host});
  }
  return targets;
}

void Board::set(const std::vector<ft::Coordination::Standing>& worlds) {
  std::map<std::string, World> next;
  for (const auto& standing : worlds) {
    World& world = next[standing.name];
    world = {standing.view.epoch, standing.view.members,     standing.view.present().size(),
             standing.waiting,    !standing.blocked.empty(), {}};
    // Only this thread writes: to look needs no lock. Cards change with the members.
    const auto before = worlds_.find(standing.name);
    const bool same = before != worlds_.end() && before->second.epoch == world.epoch &&
                      before->second.members == world.members;
    world.targets = same ? before->second.targets : targets_of(standing.view);
  }
  const std::lock_guard lock(mutex_);
  worlds_.swap(next);
}

std::string Board::targets() const {
  std::string text = "[";
  const auto add = [&text](const std::string& address, const std::string& labels) {
    text += (text.size() > 1 ? ",\n" : "\n") + std::string("{\"targets\":[") + json_text(address) +
            "],\"labels\":{" + labels + "}}";
  };
  if (!own_address_.empty()) add(own_address_, label("role", "coordinator"));
  const std::lock_guard lock(mutex_);
  for (const auto& [name, world] : worlds_) {
    for (const Target& target : world.targets) {
      add(target.address, label("role", "rank") + "," + label("world", name) + "," +
                              label("rank", std::to_string(target.rank)) + "," +
                              label("host", target.host));
    }
  }
  return text + "\n]\n";
}

void Board::write_metrics(metrics::TextEncoder& out) const {
  const std::lock_guard lock(mutex_);
  const auto each = [&](const Family& family, auto value) {
    out.family(family);
    for (const auto& [name, world] : worlds_) {
      out.sample({{"world", name}}, static_cast<std::uint64_t>(value(world)));
    }
  };
  out.family(kWorlds);
  out.sample({}, static_cast<std::uint64_t>(worlds_.size()));
  each(kEpoch, [](const World& w) { return w.epoch.value; });
  each(kMembers, [](const World& w) { return w.present; });
  each(kRanks, [](const World& w) { return w.members.size(); });
  each(kWaiting, [](const World& w) { return w.waiting; });
  each(kBlocked, [](const World& w) { return w.blocked ? 1 : 0; });
}

}  // namespace holdfast::runtime
