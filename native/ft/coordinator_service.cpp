#include "ft/coordinator_service.h"

#include <algorithm>

namespace holdfast::ft {
namespace {

// Heartbeats in which a member may connect again.
constexpr int kReturn = 3;
// Heartbeats in which members may connect again after the coordinator itself has gone: their
// kernels may have to find that out, and the name server to name another host.
constexpr int kGrace = 10;
// Ballots of members end in their rank, those of a coordinator process in a number above all ranks.
constexpr std::uint64_t kOutside = 0x8000;

constexpr int kHashBits = 28;

// The older the life that founds a world, the lower is the world's id.
CommId world_id(std::uint64_t started, std::uint64_t instance, std::uint64_t number) {
  // The finalizer of SplitMix64 (Steele et al. 2014): no two numbers give the same.
  std::uint64_t x = instance + number * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return {started << kHashBits | (((x ^ (x >> 31)) >> (64 - kHashBits)) | 1)};
}

bool is_of_member(MessageKind kind) {
  return kind == MessageKind::kReport || kind == MessageKind::kAccept ||
         kind == MessageKind::kSuspect || kind == MessageKind::kBoundary;
}

std::string in_seconds(Duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

// The world of that name; of two jobs that have had the name in turn, the one whose members can be
// reached.
CoordinatorService::ServedWorld* CoordinatorService::named(const std::string& name) {
  ServedWorld* found = nullptr;
  for (auto& [id, world] : worlds_) {
    if (world.coordinator.name() != name || world.coordinator.is_deserted()) continue;
    if (found == nullptr || !reaches_members(*found)) found = &world;
  }
  return found;
}

Duration CoordinatorService::grace() const {
  return settings_.grace.value_or(settings_.heartbeat * kGrace);
}

CommId CoordinatorService::new_world() {
  CommId id;
  do id = world_id(settings_.started, settings_.instance, ++begun_);
  while (worlds_.contains(id));
  return id;
}

void CoordinatorService::refuse(MemberId to, CommId world, const std::string& why) {
  Message refused;
  refused.kind = MessageKind::kRefused;
  refused.world = world;
  refused.text = why;
  sends_.emplace_back(to, std::move(refused));
}

void CoordinatorService::fence(MemberId to, CommId world, Epoch epoch, const std::string& why) {
  Message fenced;
  fenced.kind = MessageKind::kFenced;
  fenced.world = world;
  fenced.epoch = epoch;
  fenced.text = why;
  sends_.emplace_back(to, std::move(fenced));
}

// The world that could not be reached for longest makes room.
bool CoordinatorService::make_room(Instant now) {
  if (worlds_.size() < kMaxWorlds) return true;
  const auto oldest =
      std::min_element(worlds_.begin(), worlds_.end(), [](const auto& a, const auto& b) {
        return a.second.unreached_since < b.second.unreached_since;
      });
  if (oldest->second.unreached_since > now) return false;
  worlds_.erase(oldest);
  return true;
}

CoordinatorService::ServedWorld* CoordinatorService::begin(MemberId from, CommId id,
                                                           const Message& message, bool elastic,
                                                           Instant now) {
  if (!make_room(now)) {
    refuse(from, id, "this coordinator has " + std::to_string(kMaxWorlds) + " groups already");
    return nullptr;
  }
  const bool is_new = message.kind == MessageKind::kJoin;
  CoordinatorSettings settings;
  settings.heartbeat = settings_.heartbeat;
  settings.silence = settings_.silence;
  settings.outside = true;
  settings.elastic = elastic;
  settings.founding = is_new;
  settings.min_peers = settings_.min_peers;
  if (is_new) settings.min_peers = std::max<std::size_t>(settings.min_peers, message.version);
  settings.record = settings_.record;
  settings.notary = settings_.notary;
  settings.host_of = settings_.host_of;
  // A statement that was kept from an earlier view shows as well that a view was decided. All
  // members of a group of a fixed size have the secret, and are one party.
  const bool may_be_old =
      !is_new && elastic && settings_.notary != nullptr && settings_.record == nullptr;
  if (may_be_old) settings.decides_from = *started_ + grace();
  // The ballot is above all that this member has promised.
  const std::uint64_t count = (message.generation.value >> 16) + 1;
  const Generation ballot{count << 16 | kOutside | (settings_.instance & (kOutside - 1))};
  Coordinator coordinator(id, message.text, ballot, settings);
  ServedWorld& world = worlds_.emplace(id, ServedWorld{std::move(coordinator)}).first->second;
  if (is_new) look_at_hold(world, now);
  return &world;
}

// nullptr: the message is for a world that is not known here and that the message cannot create.
CoordinatorService::ServedWorld* CoordinatorService::find(MemberId from, const Message& message,
                                                          Instant now) {
  if (message.kind == MessageKind::kJoin) {
    if (message.version > kMaxLobby) {
      refuse(from, message.world,
             "min_peers " + std::to_string(message.version) + "; accepted: at most " +
                 std::to_string(kMaxLobby));
      return nullptr;
    }
    ServedWorld* known = named(message.text);
    const bool asks_any = message.joiners.size() == 1 && message.joiners[0].wanted.value < 0;
    const bool is_new = known == nullptr || known->coordinator.view().epoch.value == 0;
    if (asks_any && is_new) strike_off(from, message.text);
    if (known != nullptr && asks_any && is_new &&
        message.version > known->coordinator.min_peers()) {
      known->coordinator.set_min_peers(message.version);
    }
    // A process that wants a certain rank belongs to a world that exists, whose members have yet to
    // greet.
    if (known != nullptr || !asks_any) return known;
    return begin(from, new_world(), message, true, now);
  }
  const auto at = worlds_.find(message.world);
  if (at != worlds_.end()) return &at->second;
  if (message.kind == MessageKind::kGreet) {
    return message.view.has(from) ? find_greeted(from, message, now) : nullptr;
  }
  // The member will greet again, and send its view.
  if (is_of_member(message.kind)) refuse(from, message.world, "");
  return nullptr;
}

// Why a world without members cannot begin yet; empty: it can.
std::string CoordinatorService::reason_to_wait(const std::string& name, Instant now) {
  if (settings_.record == nullptr) {
    if (now - *started_ >= grace()) return "";
    return "the coordinator has just been started: for " + in_seconds(grace()) +
           " members of a group of that name come first";
  }
  const auto said = settings_.record->load(name);
  if (!said.is_ok()) return "the coordinator's record cannot be read: " + said.status().message();
  if (!said.value()) return "";
  if (now - *started_ >= settings_.keep) {
    const auto freed = settings_.record->compare_and_set(name, said.value(), std::nullopt);
    if (freed.is_ok() && freed.value()) return "";
  }
  return "the coordinator's record has a group of that name, of which no member has called yet; "
         "they keep the name for " +
         in_seconds(settings_.keep) + " after the coordinator's start (--keep)";
}

// Removes a process from the record's view that asks to join: the life that founded a world with it
// ended before it said so.
void CoordinatorService::strike_off(MemberId stranger, const std::string& name) {
  if (settings_.record == nullptr) return;
  const auto said = settings_.record->load(name);
  if (!said.is_ok() || !said.value()) return;
  WorldRecord rest = *said.value();
  if (std::erase(rest.members, stranger) == 0) return;
  const std::optional<WorldRecord> next =
      rest.members.empty() ? std::nullopt : std::optional(std::move(rest));
  [[maybe_unused]] const auto struck = settings_.record->compare_and_set(name, said.value(), next);
}

bool CoordinatorService::reaches_members(const ServedWorld& world) {
  const WorldView& view = world.coordinator.view();
  return !world.coordinator.is_deaf() &&
         std::any_of(world.connected.begin(), world.connected.end(),
                     [&](MemberId member) { return view.has(member); });
}

void CoordinatorService::look_at_hold(ServedWorld& world, Instant now) {
  if (now < world.next_look) return;
  world.next_look = now + settings_.heartbeat;
  Coordinator& c = world.coordinator;
  if (c.view().epoch.value == 0) return c.hold(reason_to_wait(c.name(), now), now);
  if (reaches_members(world)) return c.hold("", now);
  c.hold("none of its " + std::to_string(c.view().present().size()) +
             " members can be reached, and nothing proves that they have ended: the name is "
             "theirs for " +
             in_seconds(settings_.keep) + " (--keep)",
         now);
}

// Whether no member of the world is left, or none could be reached for so long that others may have
// its name.
bool CoordinatorService::is_over(ServedWorld& world, Instant now) {
  Coordinator& c = world.coordinator;
  if (c.view().epoch.value == 0) return world.connected.empty();
  world.unreached_since =
      reaches_members(world) ? Instant{Duration::max()} : std::min(world.unreached_since, now);
  const bool late = world.unreached_since <= now && now - world.unreached_since >= settings_.keep;
  if (!late && !c.is_deserted()) return false;
  c.give_up_name();
  // A process that was voted out must be told when it comes back.
  return late || !c.awaits_outcasts();
}

void CoordinatorService::confine(MemberId process, const EntryTicket& ticket) {
  if (ticket.run.empty()) {
    tickets_.erase(process);
  } else {
    tickets_[process] = ticket;
  }
}

bool CoordinatorService::is_confined_from(MemberId from, const Message& message) const {
  const auto confined = tickets_.find(from);
  if (confined == tickets_.end()) return false;
  const bool names = message.kind == MessageKind::kJoin || message.kind == MessageKind::kGreet;
  const auto known = worlds_.find(message.world);
  const std::string prefix = confined->second.run + "/";
  if (known != worlds_.end() && !known->second.coordinator.name().starts_with(prefix)) return true;
  return names && !message.text.starts_with(prefix);
}

void CoordinatorService::expel(MemberId process, const std::string& why, Instant now) {
  for (auto& [id, world] : worlds_) {
    Coordinator& c = world.coordinator;
    if (c.view().has(process)) {
      fence(process, id, c.view().epoch, why);
    } else if (c.knows(process)) {
      refuse(process, id, why);
    }
    world.connected.erase(process);
    c.on_closed(process, now);
    collect(world);
  }
  withdraw(process);
}

void CoordinatorService::on_message(MemberId from, const Message& message, Instant now) {
  if (!started_) started_ = now;
  gone_.erase(from);
  if (is_confined_from(from, message)) {
    return refuse(from, message.world, "its token is of the run \"" + tickets_.at(from).run + "\"");
  }
  if (const std::string over = over_quota(from, message); !over.empty()) {
    return refuse(from, message.world, over);
  }
  ServedWorld* world = find(from, message, now);
  if (world == nullptr) return;
  world->connected.insert(from);
  world->coordinator.on_heard(from);
  Message named = message;
  named.world = world->coordinator.world();
  world->coordinator.on_message(from, named, now);
  collect(*world);
  // A process in its lobby asks again, and founds another world.
  if (is_over(*world, now)) worlds_.erase(named.world);
}

void CoordinatorService::on_closed(MemberId member, bool proven, Instant now) {
  gone_.erase(member);
  withdraw(member);
  // With a secret a connection that was closed is no more than silence.
  const Duration comes_back = settings_.host_of ? settings_.silence : settings_.heartbeat * kReturn;
  if (!proven) gone_[member] = now + comes_back;
  for (auto& [id, world] : worlds_) {
    if (proven) {
      world.connected.erase(member);
      world.coordinator.on_closed(member, now);
    } else {
      world.coordinator.on_strayed(member);
    }
    collect(world);
  }
}

void CoordinatorService::on_silent(MemberId member, Instant now) {
  for (auto& [id, world] : worlds_) {
    world.coordinator.on_unheard(member, now);
    collect(world);
  }
}

void CoordinatorService::on_heard(MemberId member) {
  for (auto& [id, world] : worlds_) world.coordinator.on_heard(member);
}

void CoordinatorService::tick(Instant now) {
  if (!started_) started_ = now;
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
  for (auto at = worlds_.begin(); at != worlds_.end();) {
    ServedWorld& world = at->second;
    if (is_over(world, now)) {
      at = worlds_.erase(at);
      continue;
    }
    look_at_hold(world, now);
    world.coordinator.tick(now);
    collect(world);
    ++at;
  }
}

Instant CoordinatorService::next_tick() const {
  if (!started_) return {};
  Instant next{Duration::max()};
  for (const auto& [member, until] : gone_) next = std::min(next, until);
  for (const auto& [id, world] : worlds_) next = std::min(next, world.coordinator.next_tick());
  return next;
}

void CoordinatorService::collect(ServedWorld& world) {
  for (auto& send : world.coordinator.take_sends()) sends_.push_back(std::move(send));
  const Epoch epoch = world.coordinator.view().epoch;
  if (std::exchange(world.collected, epoch) != epoch) has_begun_ = true;
}

bool CoordinatorService::knows(MemberId process) const {
  return std::any_of(worlds_.begin(), worlds_.end(),
                     [&](const auto& entry) { return entry.second.coordinator.knows(process); });
}

std::vector<CoordinatorService::WorldStanding> CoordinatorService::worlds() const {
  std::vector<WorldStanding> result;
  each_world([&](const Coordinator& c) {
    result.push_back({c.name(), c.view(), c.waiting(), c.blocked()});
  });
  return result;
}

}  // namespace holdfast::ft
