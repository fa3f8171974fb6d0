// World board: what is told of one world: who sits at which rank and how it is, which views there
// were, what came and went. Values only: told of views and of connections, it compares them with
// what it knew before.
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

namespace holdfast::runtime {

// The last ones; what is older is for a metrics store.
inline constexpr std::size_t kEpochsKept = 64;
// Ranks named in one event; the others are counted.
inline constexpr std::size_t kRanksNamed = 16;

struct StatusEvent {
  Instant at;
  std::string world;
  std::string_view kind;   // began, joined, lost, blocked, ended
  std::string_view cause;  // of a loss: died, silent, cut, left
  Epoch epoch;
  std::size_t count = 0;           // of ranks
  std::vector<Rank> ranks;         // the first of them
  std::vector<std::string> hosts;  // of those, each once
  std::string why;                 // it is blocked
};

enum class RankState : std::uint8_t {
  kVacant,    // nobody has sat there
  kWell,      // ops can run
  kChanging,  // a change of view is under way
  kFailed,    // its group has failed, or it was voted out
  kUnheard,   // never heard of: whoever listens has just begun to
  kSilent,    // nothing has come for too long
  kGone,      // its connection has ended, and the view still has it
  kLeft,      // it said goodbye
  kLost,      // the view has lost it, and nobody has come in its place
};
inline constexpr int kRankStateCount = 9;
std::string_view rank_state_name(RankState state);  // "vacant", ...

// A rank of a world, and who has it.
struct RankStatus {
  MemberId member = ft::kNobody;  // the last one that had it
  RankState state = RankState::kVacant;
  std::string_view cause;  // kLost: as in StatusEvent
  std::string host;
  std::string http;  // "host:port" of its pages; empty: none
  Instant heard;     // the last time
  Instant since;     // of the state
  // Of its process. Owners: this, and copies that are being written out.
  std::shared_ptr<const RankNumbers> numbers;
};

struct ViewRecord {
  Epoch epoch;
  Instant began;
  std::size_t members = 0;
  std::size_t joined = 0;
  std::size_t lost = 0;
};

// What a world is now, as whoever knows it says.
struct WorldNews {
  std::string name;
  const ft::WorldView* view;  // outlives the call
  std::size_t waiting = 0;    // strangers before a step boundary
  std::string blocked;        // why a loss cannot be decided; empty: nothing is in the way
};

// Where a member is, as its card says: "host", and "host:port" of its pages. Empty: not known.
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

  // What has happened since, in order.
  std::vector<StatusEvent> update(const WorldNews& news, const ContactOf& look,
                                  const NumbersOf& numbers_of, Instant now);

  const std::string& name() const { return name_; }
  Epoch epoch() const { return epoch_; }
  std::size_t members() const { return members_; }
  std::size_t waiting() const { return waiting_; }
  const std::string& blocked() const { return blocked_; }
  const std::vector<RankStatus>& ranks() const { return ranks_; }  // by rank
  const std::deque<ViewRecord>& views() const { return views_; }

 private:
  std::vector<StatusEvent> take_view(const ft::WorldView& view, const ContactOf& look, Instant now);
  void look_at(RankStatus& status, const ft::Contact& contact, Instant now);

  std::string name_;
  PlaceOf place_of_;
  Epoch epoch_;
  std::size_t members_ = 0;
  std::size_t waiting_ = 0;
  std::string blocked_;
  std::vector<MemberId> view_;  // by rank
  std::vector<RankStatus> ranks_;
  std::deque<ViewRecord> views_;
};

}  // namespace holdfast::runtime
