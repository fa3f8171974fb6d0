// Observer: told where ops begin, wait and end, what links carry, and how views change. One
// interface, so that what is measured is decided in one place and costs nothing without an
// observer.
//
// Thread: only the holder of the runtime. Nothing here may block or allocate for an op.
// Why: docs/decisions/0049-health-is-one-observer.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "comm/schedule/collective.h"
#include "compress/options.h"

namespace holdfast::comm {

struct OpRequest;
struct MailMeter;
class Link;

// The path of an op.
enum class OpPath : std::uint8_t {
  kNone,      // refused, or not begun yet
  kFlat,      // the flat exchange in shared memory
  kSlices,    // the slice exchange in shared memory
  kSchedule,  // an algorithm of the catalogue, over links
  kRepair,    // transfers and reductions that a loss left to do
  kMessage,   // a send or a receive
  kDirect,    // device to device; the ranks' control ops take other paths
  kEncoded,   // as frames that devices encode and decode; the frames move as other ops do
  kTwoLevel,  // inside hosts as kDirect; what hosts exchange moves as other ops do
};
inline constexpr int kOpPathCount = 9;

std::string_view op_path_name(OpPath path);  // "flat", ...

// Bytes that an op sends as frames, and bytes of the same elements in the call's dtype.
struct EncodedBytes {
  compress::CodecId codec{};
  std::uint64_t plain_bytes = 0;
  std::uint64_t frame_bytes = 0;  // 0: it sends no frames
};

// Whether, and since when, a caller has waited for an op.
struct Wait {
  Instant since{};      // none: no caller waits
  Duration earlier{};   // total of waits that were given up
  bool unseen = false;  // a caller waits where the work cannot see it
  bool known() const { return !unseen || since != Instant{} || earlier > Duration::zero(); }
};

// Kept with an op from its call to its end.
struct OpTicket {
  std::uint64_t number = 0;  // the observer's; 0: the observer knows nothing of the op
  Instant enqueued{};
  Instant started{};
  CommId group;
  OpSeq sequence;
  Collective collective{};
  OpPath path = OpPath::kNone;
  std::string_view algorithm;  // a row of the catalogue: static
  std::uint8_t caller = 0;     // the observer's number for the program's call; 0: none
  std::uint64_t bytes = 0;
  EncodedBytes encoded;
  Wait wait;  // as of its end
  // Set by the observer: time that ops and waits had covered when the op began.
  std::uint64_t active_before_ns = 0;
  std::uint64_t exposed_before_ns = 0;
};

// Why a member is no longer in the view.
enum class LossCause : std::uint8_t {
  kDied,    // its process has ended
  kSilent,  // nothing came from it
  kCut,     // the connection broke; the process may live
  kLeft,    // it said goodbye
};
inline constexpr int kLossCauseCount = 4;

std::string_view loss_cause_name(LossCause cause);  // "died", ...

// State of a process in its worlds.
enum class Standing : std::uint8_t {
  kAlone,     // in no world yet, or not any more
  kMember,    // ops can run
  kChanging,  // a view change is under way
  kVotedOut,
  kEnded,  // the group of all ranks has failed
};

// What is told of a map of links.
struct MapFacts {
  std::uint32_t version = 0;  // how many its group has taken; 0: it is the option's
  std::uint64_t digest = 0;
  std::uint32_t ranks = 0;  // that it covers; 0: there is no map
  friend bool operator==(const MapFacts&, const MapFacts&) = default;
};

class Observer {
 public:
  virtual ~Observer() = default;

  struct ObservedOp {
    CommId group;
    OpSeq sequence;
    Epoch epoch;
    Rank rank;  // in the group
    const OpRequest& request;
  };
  // `ticket.enqueued`, `.path` and `.algorithm` are set where they are known.
  virtual void on_op_begun(const ObservedOp& op, OpTicket& ticket, Instant now) = 0;
  // The op's path in the view `epoch` is known: an op that a loss has met begins afresh in a later
  // view, on a path of its own.
  virtual void on_path_taken(const OpTicket& ticket, Epoch epoch) = 0;
  // The op has waited for these ranks of the world during the last `time`.
  virtual void on_waited(const OpTicket& ticket, std::span<const Rank> peers, Duration time) = 0;
  // The residual of an op that has just ended well; `squares` is the sum of its elements' squares.
  virtual void on_residual_left(compress::CodecId codec, double squares) = 0;
  // `repaired`: a loss had cut it off.
  virtual void on_op_ended(const OpTicket& ticket, Code code, bool repaired, Instant now) = 0;

  virtual void on_group_named(CommId group, const std::string& name) = 0;
  // The link's bytes count for this rank of the world from now on.
  virtual void on_linked(Rank peer, Link& link) = 0;
  // Where messages with this rank of the world are counted; null: nowhere. It outlives the groups.
  virtual MailMeter* mail_meter(Rank) { return nullptr; }

  struct ObservedView {
    Epoch epoch;
    Rank self;  // in the world
    std::size_t members = 0;
    std::size_t joined = 0;
    std::size_t lost = 0;
    Duration stopped{};  // how long ops stood still before it, after a loss
  };
  virtual void on_view_begun(const ObservedView& view) = 0;
  // Why a member was lost from a view. Called with the view, or soon after it.
  virtual void on_member_lost(LossCause cause) = 0;
  virtual void on_standing(Standing standing) = 0;

  struct ObservedMap {
    const std::string& group;  // its name
    MapFacts facts;
  };
  // A group of all ranks of its world plans by this map from now on, or by none.
  virtual void on_map_taken(const ObservedMap&) {}
};

}  // namespace holdfast::comm
