// What a runtime tells of its worlds: by its heartbeats to the process that keeps a status model of
// them, and in its own status model.
#include <algorithm>
#include <set>

#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

// Where there is no coordinator process, the first rank serves the status pages.
MemberId first_member(const ft::WorldView& view) {
  const auto at = std::find_if(view.members.begin(), view.members.end(),
                               [](MemberId member) { return member != ft::kNobody; });
  return at == view.members.end() ? ft::kNobody : *at;
}

health::RankSummary own_summary(const health::Health& health) {
  return health::summarize(health.metrics(), health.standing(), health.now());
}

}  // namespace

ft::Bytes Runtime::news_for(MemberId peer) {
  bool listens = parts_.coordinator && parts_.coordinator->member == peer;
  if (!parts_.coordinator && parts_.service == nullptr) {
    router_.each_world(
        [&](const auto& world) { listens = listens || first_member(world->view()) == peer; });
  }
  if (!listens) return {};
  return health::encode_summary(own_summary(*parts_.health));
}

void Runtime::hear_news(MemberId from, std::span<const std::byte> bytes, Instant now) {
  if (!parts_.status) return;
  // A summary of another version is ignored: the numbers are for people only, so the connection
  // goes on.
  const auto summary = health::parse_summary(bytes);
  if (summary.is_ok()) parts_.status->hear(from, summary.value(), now);
}

void Runtime::write_status(Instant now) {
  if (parts_.relay) parts_.status->set_relay(parts_.relay->counts().numbers());
  std::vector<health::WorldNews> worlds;
  if (parts_.service != nullptr) {
    parts_.service->each_world([&](const ft::Coordinator& c) {
      worlds.push_back({c.name(), &c.view(), c.waiting(), c.blocked(), c.began_at_boundary()});
    });
  } else {
    parts_.status->hear(parts_.self, own_summary(*parts_.health), now);
    std::set<std::string> names;
    router_.each_world([&](const auto& world) {
      const ft::Membership& membership = world->membership();
      // Of two groups with one name, made by two stores, only the first is shown.
      if (!names.insert(membership.name()).second) return;
      worlds.push_back({membership.name(), &membership.view(), 0, membership.blocked()});
    });
  }
  const auto look = [this, now](MemberId member) { return router_.contact_of(member, now); };
  parts_.status->set(worlds, look, now);
}

}  // namespace holdfast::runtime
