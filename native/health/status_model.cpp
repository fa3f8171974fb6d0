#include "health/status_model.h"

#include <algorithm>
#include <set>

#include "health/families.h"
#include "health/json.h"

namespace holdfast::health {
namespace {

using metrics::Family;

std::string label(const std::string& name, const std::string& value) {
  return json_text(name) + ":" + json_text(value);
}

}  // namespace

// Worlds are matched by name: a coordinator refuses a second job with the same name.
void StatusModel::set(const std::vector<WorldNews>& worlds, const ContactOf& look, Instant now) {
  forget_absent(worlds);
  const auto numbers_of = [this](MemberId member) {
    const auto at = numbers_.find(member);
    return at == numbers_.end() ? nullptr : at->second;
  };
  const std::lock_guard lock(mutex_);
  std::vector<WorldStatus>& known = state_.worlds;
  std::set<std::string> names;
  for (const WorldNews& news : worlds) {
    names.insert(news.name);
    auto at = std::find_if(known.begin(), known.end(),
                           [&](const WorldStatus& world) { return world.name() >= news.name; });
    if (at == known.end() || at->name() != news.name) at = known.emplace(at, news.name, place_of_);
    for (StatusEvent& event : at->update(news, look, numbers_of, now)) add_event(std::move(event));
  }
  std::erase_if(known, [&](const WorldStatus& world) {
    const bool ended = !names.contains(world.name());
    if (ended) add_event({now, world.name(), "ended", "", world.epoch(), 0, {}, {}, ""});
    return ended;
  });
  state_.seen = now;
}

void StatusModel::hear(MemberId from, const RankSummary& summary, Instant now) {
  auto& numbers = numbers_[from];
  auto next = numbers ? std::make_shared<RankNumbers>(*numbers) : std::make_shared<RankNumbers>();
  next->update(summary, now);
  numbers = std::move(next);
}

void StatusModel::set_relay(const RelayNumbers& numbers) {
  const std::lock_guard lock(mutex_);
  state_.relay = numbers;
}

// A member that is in no view sends no summaries, or has gone.
void StatusModel::forget_absent(const std::vector<WorldNews>& worlds) {
  std::set<MemberId> present;
  for (const WorldNews& news : worlds) {
    present.insert(news.view->members.begin(), news.view->members.end());
  }
  std::erase_if(numbers_, [&](const auto& entry) { return !present.contains(entry.first); });
}

void StatusModel::add_event(StatusEvent event) {
  state_.events.push_back(std::move(event));
  if (state_.events.size() > kEventsKept) state_.events.pop_front();
}

StatusSnapshot StatusModel::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::string StatusModel::targets() const {
  std::string text = "[";
  // A target is a host and a port; how to speak to it is a label, which Prometheus goes by.
  const auto add = [&text](const std::string& address, const std::string& labels) {
    constexpr std::string_view kSealed = "https://";
    const bool sealed = address.starts_with(kSealed);
    text += (text.size() > 1 ? ",\n" : "\n") + std::string("{\"targets\":[") +
            json_text(sealed ? address.substr(kSealed.size()) : address) + "],\"labels\":{" +
            (sealed ? label("__scheme__", "https") + "," : "") + labels + "}}";
  };
  if (!own_address_.empty()) add(own_address_, label("role", "coordinator"));
  const std::lock_guard lock(mutex_);
  for (const WorldStatus& world : state_.worlds) {
    for (std::size_t r = 0; r < world.ranks().size(); ++r) {
      const RankStatus& status = world.ranks()[r];
      if (status.http.empty() || status.state == RankState::kLost) continue;
      add(status.http, label("role", "rank") + "," + label("world", world.name()) + "," +
                           label("rank", std::to_string(r)) + "," + label("host", status.host));
    }
  }
  return text + "\n]\n";
}

void StatusModel::write_metrics(metrics::TextEncoder& out) const {
  const std::lock_guard lock(mutex_);
  const auto each = [&](const Family& family, auto value) {
    out.family(family);
    for (const WorldStatus& world : state_.worlds) {
      out.sample({{"world", world.name()}}, static_cast<std::uint64_t>(value(world)));
    }
  };
  out.family(family::kWorlds);
  out.sample({}, static_cast<std::uint64_t>(state_.worlds.size()));
  each(family::kWorldEpoch, [](const WorldStatus& w) { return w.epoch().value; });
  each(family::kWorldMembers, [](const WorldStatus& w) { return w.members(); });
  each(family::kRanks, [](const WorldStatus& w) { return w.ranks().size(); });
  each(family::kWaiting, [](const WorldStatus& w) { return w.waiting(); });
  each(family::kBlocked, [](const WorldStatus& w) { return w.blocked().empty() ? 0 : 1; });
  write_relay(out, state_.relay ? &*state_.relay : nullptr);
}

}  // namespace holdfast::health
