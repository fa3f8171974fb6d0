// CoordinatorService: what a coordinator in a process of its own does: one Coordinator per world,
// made when a member of the world greets, or when the first stranger asks for a world that does not
// exist yet. Sans-IO. A coordinator process that is started anew learns everything from the
// members, except which coordinator decided last: that is in its record, if it has one. Members of
// a world come before strangers that would found another one of its name, and of two worlds of one
// name the older one goes on, or, where views are signed, the one that has more members here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ft/coordinator.h"
#include "ft/quotas.h"

namespace holdfast::ft {

// Limit of the worlds that one process serves.
inline constexpr std::size_t kMaxWorlds = 1024;
// How long a world is kept whose members cannot be reached: a switch or a name server is replaced
// in less, and the state of a world is a few kilobytes.
inline constexpr Duration kKeepWorlds = std::chrono::hours(2);

class CoordinatorService {
 public:
  struct Settings {
    Duration heartbeat = std::chrono::milliseconds(500);
    Duration silence = std::chrono::seconds(10);
    std::uint64_t instance = 0;  // random; tells the lives of a coordinator apart
    // When this life began: later lives have higher numbers, and so have the worlds founded in
    // them.
    std::uint64_t started = 0;
    std::size_t min_peers = 1;  // for worlds whose first member does not ask for more
    // For so long after the start no world is founded unless a record shows that its name is new;
    // nullopt: as long as members need to greet again.
    std::optional<Duration> grace = std::nullopt;
    // How long a world keeps its name while none of its members can be reached.
    Duration keep = kKeepWorlds;
    Record* record = nullptr;  // outlives this
    Quotas quotas = {};
    // Signs views, if there is a secret to do it with; then no other views count. Outlives this.
    Notary* notary = nullptr;
    HostOfCard host_of = {};  // with a secret: whose word proves a death
  };
  struct WorldStanding {
    std::string name;
    WorldView view;
    std::size_t waiting = 0;  // in the lobby
    std::string blocked;      // why a loss cannot be decided; empty: nothing is in the way
  };
  // By what a process was let in.
  struct EntryTicket {
    std::string run = {};               // it may speak of worlds named RUN/... only; "": of all
    std::string token = {};             // or certificate, by name; "": it has the secret
    std::size_t places = kLobbyPlaces;  // in lobbies, of all who have the token
  };
  // What an operator asks for, of the world `world`.
  struct MemberOrder {
    std::string world;
    Rank rank;
    std::string why;
  };

  explicit CoordinatorService(const Settings& settings) : settings_(settings) {}

  // To be said before the process's first message, and taken back (`{}`) when its connection is
  // forgotten.
  void confine(MemberId process, const EntryTicket& ticket);
  // The process may be in no world any more: it is told why, and the others go on as if it had
  // ended. It can do nothing else without its coordinator, but must be kept from coming back.
  void expel(MemberId process, const std::string& why, Instant now);

  // As Coordinator has them. kConfigError: also where there is no such world, with those that are.
  Status kick(const MemberOrder& order, Instant now);
  Status drain(const MemberOrder& order, Instant until);
  Status pause(const std::string& world, Instant until);
  Status resume(const std::string& world, Instant now);
  // nullptr: there is no world of that name.
  const Coordinator* find_world(const std::string& name) { return at_name(name); }
  // What the run has of its quota.
  RunUse use_of(const std::string& run) const;
  const Quotas& quotas() const { return settings_.quotas; }

  void on_message(MemberId from, const Message& message, Instant now);
  // `proven`: the process has ended. Otherwise the network in between may be at fault.
  void on_closed(MemberId member, bool proven, Instant now);
  void on_silent(MemberId member, Instant now);
  void on_heard(MemberId member);
  void tick(Instant now);
  Instant next_tick() const;

  Coordinator::Sends take_sends() { return std::exchange(sends_, {}); }
  // Whether a view has begun since the last call.
  bool take_begun() { return std::exchange(has_begun_, false); }
  std::vector<WorldStanding> worlds() const;
  // Whether the process is a member of a world, was voted out of it and may not know it, or waits
  // in a lobby.
  bool knows(MemberId process) const;
  // Calls visit(const Coordinator&), without copies, for the worlds that have members or may have
  // some.
  template <class Visit>
  void each_world(Visit visit) const {
    for (const auto& [id, world] : worlds_) {
      if (!world.coordinator.is_deserted()) visit(world.coordinator);
    }
  }

 private:
  struct ServedWorld {
    Coordinator coordinator;
    Epoch collected = {};  // the epoch when collect() was last called
    std::set<MemberId> connected = {};
    Instant unreached_since{Duration::max()};  // since when no member of it is reached
    Instant next_look{};                       // when to check again whether it may begin
  };
  ServedWorld* find(MemberId from, const Message& message, Instant now);
  ServedWorld* find_greeted(MemberId from, const Message& message, Instant now);
  ServedWorld* begin(MemberId from, CommId id, const Message& message, bool elastic, Instant now);
  ServedWorld* named(const std::string& name);
  CommId new_world();
  bool make_room(Instant now);
  bool outweighs(MemberId from, const Message& message, const ServedWorld& known);
  void withdraw(MemberId claimant);
  Duration grace() const;
  void refuse(MemberId to, CommId world, const std::string& why);
  void fence(MemberId to, CommId world, Epoch epoch, const std::string& why);
  Coordinator* at_name(const std::string& name);
  Result<Coordinator*> ordered(const std::string& name);
  std::string over_quota(MemberId from, const Message& message) const;
  std::size_t places_of(const std::string& token) const;
  bool is_confined_from(MemberId from, const Message& message) const;
  void collect(ServedWorld& world);
  static bool reaches_members(const ServedWorld& world);
  bool is_over(ServedWorld& world, Instant now);
  void look_at_hold(ServedWorld& world, Instant now);
  std::string reason_to_wait(const std::string& name, Instant now);
  void strike_off(MemberId stranger, const std::string& name);

  Settings settings_;
  std::map<CommId, ServedWorld> worlds_;
  std::map<MemberId, EntryTicket> tickets_;  // of processes that have tokens
  // By world whose name another one has: its members that have called, and are connected.
  std::map<CommId, std::set<MemberId>> claims_;
  std::map<MemberId, Instant> gone_;  // whose connection has ended; until when they may come back
  std::uint64_t begun_ = 0;
  std::optional<Instant> started_;  // the first `now`
  Coordinator::Sends sends_;
  bool has_begun_ = false;
};

}  // namespace holdfast::ft
