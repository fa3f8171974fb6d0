// CoordinatorService: what a coordinator in a process of its own does: one Coordinator per world,
// made when a member of it greets, or when the first stranger asks for one that nobody has formed
// yet. Sans-IO. A process that is started anew is told everything by the members, but who decided
// last: that is in its record, if it has one. Members of a world come before strangers that would
// found another one of its name, and of two worlds of a name the older one goes on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ft/coordinator.h"

namespace holdfast::ft {

// Worlds that one process looks after.
inline constexpr std::size_t kMaxWorlds = 1024;
// A switch or a name server is replaced in less; the state of a world is a few kilobytes.
inline constexpr Duration kKeepWorlds = std::chrono::hours(2);

class CoordinatorService {
 public:
  struct Settings {
    Duration heartbeat = std::chrono::milliseconds(500);
    Duration silence = std::chrono::seconds(10);
    std::uint64_t instance = 0;  // random: tells the lives of a coordinator apart
    // When this life began: later ones have higher numbers, and so have the worlds founded there.
    std::uint64_t started = 0;
    std::size_t min_peers = 1;  // of worlds whose first member does not ask for more
    // So long after the start nobody founds a world of which no record can say that it is new;
    // nothing: as long as members need to greet again.
    std::optional<Duration> grace = std::nullopt;
    // A world none of whose members can be reached keeps its name so long.
    Duration keep = kKeepWorlds;
    Record* record = nullptr;  // outlives this
  };
  struct WorldStanding {
    std::string name;
    WorldView view;
    std::size_t waiting = 0;  // in the lobby
    std::string blocked;      // why a loss cannot be decided; empty: nothing is in the way
  };

  explicit CoordinatorService(const Settings& settings) : settings_(settings) {}

  void on_message(MemberId from, const Message& message, Instant now);
  // `proven`: the process has ended. Otherwise the network between may be at fault.
  void on_closed(MemberId member, bool proven, Instant now);
  void on_silent(MemberId member, Instant now);
  void on_heard(MemberId member);
  void tick(Instant now);
  Instant next_tick() const;

  Coordinator::Sends take_sends() { return std::exchange(sends_, {}); }
  std::vector<WorldStanding> worlds() const;
  // Without copies, those that have members, or may have some: visit(const Coordinator&).
  template <class Visit>
  void each_world(Visit visit) const {
    for (const auto& [id, world] : worlds_) {
      if (!world.coordinator.is_deserted()) visit(world.coordinator);
    }
  }

 private:
  struct ServedWorld {
    Coordinator coordinator;
    std::set<MemberId> connected = {};
    Instant unreached_since{Duration::max()};  // none of its members
    Instant next_look{};                       // whether it may begin
  };
  ServedWorld* find(MemberId from, const Message& message, Instant now);
  ServedWorld* find_greeted(MemberId from, const Message& message, Instant now);
  ServedWorld* begin(MemberId from, CommId id, const Message& message, bool elastic, Instant now);
  ServedWorld* named(const std::string& name);
  CommId new_world();
  bool make_room(Instant now);
  void refuse(MemberId to, CommId world, const std::string& why);
  void fence(MemberId to, CommId world, Epoch epoch, const std::string& name);
  void collect(ServedWorld& world);
  static bool reaches_members(const ServedWorld& world);
  bool is_over(ServedWorld& world, Instant now);
  void look_at_hold(ServedWorld& world, Instant now);
  std::string reason_to_wait(const std::string& name, Instant now);
  void strike_off(MemberId stranger, const std::string& name);

  Settings settings_;
  std::map<CommId, ServedWorld> worlds_;
  std::map<MemberId, Instant> gone_;  // when their time to come back is over
  std::uint64_t begun_ = 0;
  std::optional<Instant> started_;  // by the clock of `now`
  Coordinator::Sends sends_;
};

}  // namespace holdfast::ft
