// What an operator says to a coordinator's worlds by their names, and how many members and groups a
// run may have.
#include <algorithm>

#include "ft/coordinator_service.h"

namespace holdfast::ft {
namespace {

constexpr std::size_t kNamesShown = 16;

// `more`: what the newcomer would add.
std::string over_text(const std::string& run, const char* what, std::size_t most,
                      std::size_t there) {
  return "the run \"" + run + "\" may have " + std::to_string(most) + " " + what + ", and has " +
         std::to_string(there) + ": the coordinator's operator may allow more (--quota " + run +
         "=" + what + ":N)";
}

}  // namespace

Coordinator* CoordinatorService::at_name(const std::string& name) {
  ServedWorld* world = named(name);
  return world == nullptr ? nullptr : &world->coordinator;
}

Result<Coordinator*> CoordinatorService::ordered(const std::string& name) {
  if (Coordinator* known = at_name(name)) return known;
  std::set<std::string> names;
  each_world([&](const Coordinator& c) { names.insert(c.name()); });
  std::string text;
  std::size_t shown = 0;
  for (const std::string& known : names) {
    if (shown++ == kNamesShown) {
      text += ", ...";
      break;
    }
    text += (text.empty() ? "" : ", ") + known;
  }
  return Status{Code::kConfigError,
                "no job \"" + name + "\"; accepted: " +
                    (text.empty() ? "none: this coordinator has no jobs now" : text)};
}

Status CoordinatorService::kick(const MemberOrder& order, Instant now) {
  const auto world = ordered(order.world);
  if (!world.is_ok()) return world.status();
  Status done = world.value()->kick(order.rank, order.why, now);
  collect(*named(order.world));
  return done;
}

Status CoordinatorService::drain(const MemberOrder& order, Instant until) {
  const auto world = ordered(order.world);
  if (!world.is_ok()) return world.status();
  Status done = world.value()->drain(order.rank, order.why, until);
  collect(*named(order.world));
  return done;
}

Status CoordinatorService::pause(const std::string& name, Instant until) {
  const auto world = ordered(name);
  if (!world.is_ok()) return world.status();
  Status done = world.value()->pause(until);
  collect(*named(name));
  return done;
}

Status CoordinatorService::resume(const std::string& name, Instant now) {
  const auto world = ordered(name);
  if (!world.is_ok()) return world.status();
  world.value()->resume(now);
  collect(*named(name));
  return Status::ok();
}

RunUse CoordinatorService::use_of(const std::string& run) const {
  RunUse use;
  std::set<MemberId> members;
  std::set<MemberId> waiting;
  each_world([&](const Coordinator& c) {
    if (run_of_world(c.name()) != run) return;
    ++(c.view().epoch.value > 0 ? use.groups : use.lobbies);
    for (const MemberId member : c.view().present()) members.insert(member);
    for (const MemberId member : c.lobby()) waiting.insert(member);
  });
  std::erase_if(waiting, [&](MemberId member) { return members.contains(member); });
  use.members = members.size();
  use.waiting = waiting.size();
  return use;
}

std::size_t CoordinatorService::places_of(const std::string& token) const {
  std::size_t places = 0;
  each_world([&](const Coordinator& c) {
    for (const MemberId member : c.lobby()) {
      const auto ticket = tickets_.find(member);
      if (ticket != tickets_.end() && ticket->second.token == token) ++places;
    }
  });
  return places;
}

// Why the message may not bring one more member, group or place; empty: it may, or brings none.
// Members of a group that has had more than one view were let in by an earlier life of this
// process: what it refuses newcomers, it does not take from them.
std::string CoordinatorService::over_quota(MemberId from, const Message& message) const {
  const bool joins = message.kind == MessageKind::kJoin;
  const bool founds = message.kind == MessageKind::kGreet && message.view.epoch.value == 1 &&
                      message.view.has(from) && !worlds_.contains(message.world);
  if (!joins && !founds) return {};
  const Coordinator* world = nullptr;
  each_world([&](const Coordinator& c) {
    if (c.name() == message.text) world = &c;
  });
  if (joins && world != nullptr && world->knows(from)) return {};
  const auto ticket = tickets_.find(from);
  if (joins && ticket != tickets_.end()) {
    const std::size_t most = ticket->second.places;
    const std::size_t there = places_of(ticket->second.token);
    if (there >= most) {
      return ticket->second.token + " has " + std::to_string(there) +
             " processes in lobbies, and may have " + std::to_string(most) +
             " at a time: try again when they are in, or ask for a token of more uses "
             "(`holdfast token new --uses N`)";
    }
  }
  const std::string run = run_of_world(message.text);
  const RunQuota quota = settings_.quotas.of(run);
  if (!quota.members && !quota.groups) return {};
  const RunUse use = use_of(run);
  const std::size_t groups = use.groups + (joins ? use.lobbies : 0);
  if (quota.groups && (founds || world == nullptr) && groups >= *quota.groups) {
    return over_text(run, "groups", *quota.groups, groups);
  }
  const std::size_t there = use.members + (joins ? use.waiting : 0);
  std::size_t more = joins ? 1 : message.view.present().size();
  each_world([&](const Coordinator& c) {
    if (joins && run_of_world(c.name()) == run && c.knows(from)) more = 0;
  });
  if (quota.members && there + more > *quota.members) {
    return over_text(run, "members", *quota.members, there);
  }
  return {};
}

}  // namespace holdfast::ft
