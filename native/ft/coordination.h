// Coordination: what a coordinator in a process of its own does: one Coordinator per world, made
// when a member of it greets, or when the first stranger asks for one that nobody has formed yet.
// Sans-IO, soft state only: a process that is started anew is told everything by the members.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ft/coordinator.h"

namespace holdfast::ft {

// Worlds that one process looks after.
inline constexpr std::size_t kMaxWorlds = 1024;

class Coordination {
 public:
  struct Settings {
    Duration heartbeat = std::chrono::milliseconds(500);
    Duration silence = std::chrono::seconds(10);
    std::uint64_t instance = 0;  // random: tells the lives of a coordinator apart
    std::size_t min_peers = 1;   // of worlds whose first member does not ask for more
  };
  struct Standing {
    std::string name;
    WorldView view;
    std::size_t waiting = 0;  // in the lobby
    std::string blocked;      // why a loss cannot be decided; empty: nothing is in the way
  };

  explicit Coordination(const Settings& settings) : settings_(settings) {}

  void on_message(MemberId from, const Message& message, Instant now);
  // A connection's end is no death here: the network between may be at fault.
  void on_closed(MemberId member, Instant now);
  void on_silent(MemberId member, Instant now);
  void on_heard(MemberId member);
  void tick(Instant now);
  Instant next_tick() const;

  Coordinator::Sends take_sends() { return std::exchange(sends_, {}); }
  std::vector<Standing> worlds() const;
  // Without copies: visit(const Coordinator&).
  template <class Visit>
  void each_world(Visit visit) const {
    for (const auto& [id, world] : worlds_) visit(world.coordinator);
  }

 private:
  struct World {
    Coordinator coordinator;
    std::set<MemberId> connected;
  };
  World* find(MemberId from, const Message& message);
  World* begin(MemberId from, CommId id, const Message& message, bool elastic);
  World* named(const std::string& name);
  void refuse(MemberId to, CommId world, const std::string& why);
  void collect(World& world);

  Settings settings_;
  std::map<CommId, World> worlds_;
  std::map<MemberId, Instant> gone_;  // when their time to come back is over
  std::uint64_t begun_ = 0;
  Coordinator::Sends sends_;
};

}  // namespace holdfast::ft
