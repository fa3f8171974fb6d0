// World status: what the pages show of one world: the member and the state of each rank, past
// views, and events of members that joined or were lost. It is pure data: each update compares the
// view and the connections with those before.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ft/contact.h"
#include "ft/message.h"
#include "health/rank_summary.h"

namespace holdfast::health {

// The latest epochs are kept; older ones are a matter for a metrics store.
inline constexpr std::size_t kEpochsKept = 64;
// Limit of the ranks named in one event; the others are only counted.
inline constexpr std::size_t kRanksNamed = 16;

struct StatusEvent {
  Instant at;
  std::string world;
  std::string_view kind;   // began, joined, lost, left, blocked, map, ended
  std::string_view cause;  // of a loss: died, silent, cut, left
  Epoch epoch;
  std::size_t count = 0;           // number of ranks
  std::vector<Rank> ranks;         // the first kRanksNamed of them
  std::vector<std::string> hosts;  // hosts of `ranks`, each once
  std::string why;                 // blocked: the reason; map: which
};

enum class RankState : std::uint8_t {
  kVacant,    // no member has had this rank
  kWell,      // ops can run
  kChanging,  // a change of view is under way
  kFailed,    // its group has failed, or it was voted out
  kUnheard,   // not heard yet: this process has just begun to listen
  kSilent,    // nothing was received for too long
  kGone,      // its connection has ended, but the view still has the member
  kLeft,      // it said goodbye
  kLost,      // the view has lost the member, and none has replaced it
};
inline constexpr int kRankStateCount = 9;
std::string_view rank_state_name(RankState state);  // "vacant", ...

// A rank of a world, and the member that has it.
struct RankStatus {
  MemberId member = ft::kNobody;  // the latest member with this rank
  RankState state = RankState::kVacant;
  std::string_view cause;  // kLost: as in StatusEvent
  std::string host;
  std::string http;  // "host:port" or "https://host:port" of its pages; empty: none
  Instant heard;     // when it was last heard
  Instant since;     // when `state` began
  // Counters of its process. Owners: this, StatusModel, and copies that are being written out.
  std::shared_ptr<const RankNumbers> numbers;
};

struct ViewRecord {
  Epoch epoch;
  Instant began;
  std::size_t members = 0;
  std::size_t joined = 0;
  std::size_t lost = 0;
  std::size_t left = 0;  // besides those
};

// The present state of a world, as its group or its coordinator gives it.
struct WorldNews {
  std::string name;
  const ft::WorldView* view;  // outlives the call
  std::size_t waiting = 0;    // newcomers that wait for a step boundary
  std::string blocked;        // why a loss cannot be decided; empty: it can
  bool at_boundary = false;   // the view began at a step boundary: whoever it is without has left
};

// Where a member is, according to its card: its host, and "host:port" of its pages. Empty: not
// known.
struct MemberPlace {
  std::string host;
  std::string http;
};
using PlaceOf = MemberPlace (*)(const std::string& card);
using ContactOf = std::function<ft::Contact(MemberId)>;
using NumbersOf = std::function<std::shared_ptr<const RankNumbers>(MemberId)>;

class WorldStatus {
 public:
  WorldStatus(std::string name, PlaceOf place_of) : name_(std::move(name)), place_of_(place_of) {}

  // Returns the events since the last update, in order.
  std::vector<StatusEvent> update(const WorldNews& news, const ContactOf& look,
                                  const NumbersOf& numbers_of, Instant now);

  const std::string& name() const { return name_; }
  Epoch epoch() const { return epoch_; }
  std::size_t members() const { return members_; }
  std::size_t waiting() const { return waiting_; }
  const std::string& blocked() const { return blocked_; }
  // The newest that a rank has told of; of no ranks: none has one.
  const comm::MapFacts& map() const { return map_; }
  Instant map_since() const { return map_since_; }                 // when it was first told of
  const std::vector<RankStatus>& ranks() const { return ranks_; }  // by rank
  const std::deque<ViewRecord>& views() const { return views_; }

 private:
  std::vector<StatusEvent> take_view(const WorldNews& news, const ContactOf& look, Instant now);
  bool look_at_maps(Instant now);
  void look_at(RankStatus& status, const ft::Contact& contact, Instant now);

  std::string name_;
  PlaceOf place_of_;
  Epoch epoch_;
  std::size_t members_ = 0;
  std::size_t waiting_ = 0;
  std::string blocked_;
  comm::MapFacts map_;
  Instant map_since_;
  std::vector<MemberId> view_;  // by rank
  std::vector<RankStatus> ranks_;
  std::deque<ViewRecord> views_;
};

}  // namespace holdfast::health
