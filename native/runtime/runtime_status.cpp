// What a runtime tells of its worlds: by its heartbeats to whoever keeps a board of them, and on
// its own.
#include <algorithm>
#include <set>

#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

// Where there is no coordinator, people look at the first rank.
MemberId first_member(const ft::WorldView& view) {
  const auto at = std::find_if(view.members.begin(), view.members.end(),
                               [](MemberId member) { return member != ft::kNobody; });
  return at == view.members.end() ? ft::kNobody : *at;
}

}  // namespace

ft::Bytes Runtime::news_for(MemberId peer) {
  bool listens = parts_.coordinator && parts_.coordinator->member == peer;
  if (!parts_.coordinator && parts_.service == nullptr) {
    router_.each_world(
        [&](const auto& world) { listens = listens || first_member(world->view()) == peer; });
  }
  if (!listens) return {};
  return encode_summary(summarize(parts_.health->metrics(), parts_.health->standing()));
}

void Runtime::hear_news(MemberId from, std::span<const std::byte> bytes, Instant now) {
  if (!parts_.status) return;
  // Of another version: no reason to end the connection, the numbers are for people only.
  const auto summary = parse_summary(bytes);
  if (summary.is_ok()) parts_.status->hear(from, summary.value(), now);
}

void Runtime::write_status(Instant now) {
  std::vector<WorldNews> worlds;
  if (parts_.service != nullptr) {
    parts_.service->each_world([&](const ft::Coordinator& c) {
      worlds.push_back({c.name(), &c.view(), c.waiting(), c.blocked()});
    });
  } else {
    parts_.status->hear(parts_.self, summarize(parts_.health->metrics(), parts_.health->standing()),
                        now);
    std::set<std::string> names;
    router_.each_world([&](const auto& world) {
      const ft::Membership& membership = world->membership();
      // Of two groups with one name, met at two stores, the first is told of.
      if (!names.insert(membership.name()).second) return;
      worlds.push_back({membership.name(), &membership.view(), 0, membership.blocked()});
    });
  }
  const auto look = [this, now](MemberId member) { return router_.contact_of(member, now); };
  parts_.status->set(worlds, look, now);
}

}  // namespace holdfast::runtime
