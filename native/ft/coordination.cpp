#include "ft/coordination.h"

#include <algorithm>

namespace holdfast::ft {
namespace {

// Heartbeats that a member has to connect again.
constexpr int kReturn = 3;
// Ballots of members end in their rank; those of a process of its own in a number above all ranks.
constexpr std::uint64_t kOutside = 0x8000;

CommId world_id(std::uint64_t instance, std::uint64_t number) {
  // The finalizer of SplitMix64 (Steele et al. 2014): no two numbers give the same.
  std::uint64_t x = instance + number * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return {(x ^ (x >> 31)) | 1};
}

}  // namespace

Coordination::World* Coordination::named(const std::string& name) {
  const auto at = std::find_if(worlds_.begin(), worlds_.end(), [&](const auto& entry) {
    return entry.second.coordinator.name() == name;
  });
  return at == worlds_.end() ? nullptr : &at->second;
}

void Coordination::refuse(MemberId to, CommId world, const std::string& why) {
  Message refused;
  refused.kind = MessageKind::kRefused;
  refused.world = world;
  refused.text = why;
  sends_.emplace_back(to, std::move(refused));
}

Coordination::World* Coordination::begin(MemberId from, CommId id, const Message& message,
                                         bool elastic) {
  if (worlds_.size() >= kMaxWorlds) {
    refuse(from, id, "this coordinator has " + std::to_string(kMaxWorlds) + " groups already");
    return nullptr;
  }
  CoordinatorSettings settings;
  settings.heartbeat = settings_.heartbeat;
  settings.silence = settings_.silence;
  settings.authority = true;
  settings.elastic = elastic;
  settings.min_peers = std::max<std::size_t>(settings_.min_peers, message.version);
  // Above all that this member has promised.
  const std::uint64_t count = (message.generation.value >> 16) + 1;
  const Generation ballot{count << 16 | kOutside | (settings_.instance & (kOutside - 1))};
  Coordinator coordinator(id, message.text, ballot, settings);
  return &worlds_.emplace(id, World{std::move(coordinator), {}}).first->second;
}

// Nothing: the message is for a world that is not known, and cannot be made of it.
Coordination::World* Coordination::find(MemberId from, const Message& message) {
  if (message.kind == MessageKind::kJoin) {
    if (message.version > kMaxLobby) {
      refuse(from, message.world,
             "min_peers " + std::to_string(message.version) + "; accepted: at most " +
                 std::to_string(kMaxLobby));
      return nullptr;
    }
    World* known = named(message.text);
    const bool asks_any = message.joiners.size() == 1 && message.joiners[0].wanted.value < 0;
    if (known != nullptr && asks_any && known->coordinator.view().epoch.value == 0 &&
        message.version > known->coordinator.min_peers()) {
      known->coordinator.set_min_peers(message.version);
    }
    // Whoever wants a certain rank comes to a world that exists; its members have yet to greet.
    if (known != nullptr || !asks_any) return known;
    return begin(from, world_id(settings_.instance, ++begun_), message, true);
  }
  const auto at = worlds_.find(message.world);
  if (at != worlds_.end()) return &at->second;
  if (message.kind != MessageKind::kGreet || !message.view.has(from)) return nullptr;
  if (named(message.text) != nullptr) {
    refuse(from, message.world,
           "this coordinator has another job with a group \"" + message.text +
               "\"; name yours in the coordinator's address: host:port/NAME");
    return nullptr;
  }
  return begin(from, message.world, message, message.elastic);
}

void Coordination::on_message(MemberId from, const Message& message, Instant now) {
  gone_.erase(from);
  World* world = find(from, message);
  if (world == nullptr) return;
  world->connected.insert(from);
  world->coordinator.on_heard(from);
  Message named = message;
  named.world = world->coordinator.world();
  world->coordinator.on_message(from, named, now);
  collect(*world);
  // Who waits for it asks again, and founds another one.
  if (world->coordinator.is_deserted()) worlds_.erase(named.world);
}

void Coordination::on_closed(MemberId member, Instant now) {
  gone_[member] = now + settings_.heartbeat * kReturn;
  for (auto& [id, world] : worlds_) {
    world.coordinator.on_strayed(member);
    collect(world);
  }
}

void Coordination::on_silent(MemberId member, Instant now) {
  for (auto& [id, world] : worlds_) {
    world.coordinator.on_unheard(member, now);
    collect(world);
  }
}

void Coordination::on_heard(MemberId member) {
  for (auto& [id, world] : worlds_) world.coordinator.on_heard(member);
}

void Coordination::tick(Instant now) {
  for (auto at = gone_.begin(); at != gone_.end();) {
    if (now < at->second) {
      ++at;
      continue;
    }
    for (auto& [id, world] : worlds_) {
      world.connected.erase(at->first);
      world.coordinator.on_unheard(at->first, now);
    }
    at = gone_.erase(at);
  }
  // Nobody is left of it.
  std::erase_if(worlds_, [](const auto& entry) {
    return entry.second.connected.empty() || entry.second.coordinator.is_deserted();
  });
  for (auto& [id, world] : worlds_) {
    world.coordinator.tick(now);
    collect(world);
  }
}

Instant Coordination::next_tick() const {
  Instant next{Duration::max()};
  for (const auto& [member, until] : gone_) next = std::min(next, until);
  for (const auto& [id, world] : worlds_) next = std::min(next, world.coordinator.next_tick());
  return next;
}

void Coordination::collect(World& world) {
  for (auto& send : world.coordinator.take_sends()) sends_.push_back(std::move(send));
}

std::vector<Coordination::Standing> Coordination::worlds() const {
  std::vector<Standing> result;
  result.reserve(worlds_.size());
  for (const auto& [id, world] : worlds_) {
    const Coordinator& c = world.coordinator;
    result.push_back({c.name(), c.view(), c.waiting(), c.blocked()});
  }
  return result;
}

}  // namespace holdfast::ft
