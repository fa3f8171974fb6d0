// Membership: one member's part in the sequence of views. Sans-IO: it is told of closed and silent
// connections and of messages, and says what to send, when to stop and which view to adopt.
//
// The coordinator is a process of its own when one is named, else the lowest rank that is not known
// to be gone: when that rank dies, the next one takes over with a higher ballot.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ft/coordinator.h"
#include "ft/message.h"
#include "ft/neighbours.h"
#include "ft/standing.h"
#include "ft/witness.h"

namespace holdfast::ft {

// What the owner of a membership must do, in order.
struct SendTo {
  MemberId to;
  Message message;
};
// Stop all groups; then say what they hold with reported().
struct StopFor {
  std::vector<MemberId> lost;
};
struct Adopt {
  WorldView view;
  Reports reports;
  bool boundary = false;  // all members were at a step boundary
};
// This process was voted out.
struct Fenced {
  std::string why;
};
// Connections to these processes will be wanted.
struct Expect {
  std::vector<Joiner> joiners;
};
using Action = std::variant<SendTo, StopFor, Adopt, Fenced, Expect>;

struct MembershipSettings {
  Duration heartbeat = std::chrono::milliseconds(500);
  Duration silence = std::chrono::seconds(10);  // as the owner's detector has it
  MemberId coordinator = kNobody;  // outside the view; kNobody: the lowest rank coordinates
  bool elastic = false;
  // Whose statements count, if there is a secret; a process that has the secret signs by it what
  // its members agreed on without a coordinator outside. Outlives the membership.
  Notary* notary = nullptr;
  // With a secret: whose word proves a death.
  HostOfCard host_of = {};
  // Which members are connected from the start.
  Mesh mesh = Mesh::kFull;
};

class Membership {
 public:
  Membership(CommId world, std::string name, MemberId self, WorldView view,
             const MembershipSettings& settings);
  // A member that was admitted to a world that exists.
  Membership(std::string name, MemberId self, const Message& decision,
             const MembershipSettings& settings);

  const WorldView& view() const { return view_; }
  MemberId self() const { return self_; }
  const std::string& name() const { return name_; }
  const MembershipSettings& settings() const { return settings_; }
  bool fenced() const { return fenced_; }
  // Whether the member has gone or may have, by what this process knows.
  bool is_suspect(MemberId member) const {
    return dead_.contains(member) || silent_.contains(member) || left_.contains(member);
  }
  // Whether members are connected only where they need it, and those that stay connected anyhow.
  bool is_sparse() const { return ft::is_sparse(settings_.mesh, view_.members.size()); }
  std::vector<MemberId> neighbours() const { return ft::neighbours(view_, self_, is_led()); }
  // Whether a view change is under way.
  bool changing() const { return stopping_ || stopped_.has_value(); }
  // The lobby version that a step boundary may admit; and the last one admitted.
  std::uint64_t lobby_version() const { return lobby_version_; }
  std::uint64_t admitted_version() const { return view_.admitted; }
  MemberId coordinator() const;
  // Whether the coordinator outside the view has said lately that the members wait at their next
  // step boundary.
  bool is_paused(Instant now) const { return paused_ && now - *paused_ < settings_.silence; }
  // Outcasts of the view that may still act in an older view, as far as is known here.
  std::vector<Outcast> at_large() const;
  bool is_at_large(MemberId member) const {
    return view_.has_outcast(member) && !absent_.contains(member);
  }
  // This member leaves when no outcast is at large: until then it tells them, too, and asks the
  // coordinator about them.
  void await_outcasts(Instant now);
  // Why a view change cannot be decided; empty when nothing is in the way, or the reason is not
  // known here.
  std::string blocked() const;

  // The process has ended, which is proven.
  void on_closed(MemberId member, Instant now);
  // The member said goodbye. Nothing changes until an op misses it: at a program's end all members
  // leave, one by one.
  void on_left(MemberId member) {
    if (view_.has(member)) left_.insert(member);
    if (view_.has_outcast(member)) absent_.insert(member);
  }
  // An op waits in vain for a member that has gone or left.
  void on_missed(MemberId member, Instant now) {
    if (dead_.contains(member) || left_.contains(member)) on_closed(member, now);
  }
  void on_silent(MemberId member, Instant now);
  void on_heard(MemberId member, Instant now);
  // A connection took the place of one that broke. What was sent over the broken one may be lost:
  // the view ends, and loses no member.
  void on_relinked(MemberId member, Instant now);
  void on_message(MemberId from, const Message& message, Instant now);
  // The groups have stopped for StopFor's members; `body` says what they hold.
  void reported(Body body, Instant now);
  // This member is at a step boundary that shall admit the lobby's `version`.
  void at_boundary(std::uint64_t version, Body body, Instant now);
  // A connection to a coordinator outside the view has begun; the coordinator may know nothing yet.
  void greet(Instant now);
  // This process leaves: a coordinator outside the view tells the others at once.
  void leave(Instant now);
  // This member has left and decides nothing any more: the others may decide without it.
  void retire();
  // Whether the coordinator outside the view has answered; and why it refused this world, if it
  // did.
  bool is_greeted() const { return greeted_; }
  const std::string& refusal() const { return refusal_; }
  void tick(Instant now);
  Instant next_tick() const;

  bool has_actions() const { return !actions_.empty(); }
  bool has_left(MemberId member) const { return left_.contains(member); }
  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }

 private:
  // The last report.
  struct Reported {
    MemberId to = kNobody;
    Generation ballot;
    Instant at{};
  };
  Message make(MessageKind kind) const;
  void add_view(Message& m) const;
  void send(MemberId to, Message message, Instant now);
  void act(Action action) { actions_.push_back(std::move(action)); }
  void promise(Generation ballot);
  std::vector<MemberId> lost() const;
  void stop(Instant now);
  void be_fenced(std::string why);
  void say_out(MemberId to);
  const Bytes& attest();
  void show_view(Message& m);
  bool is_shown_out(MemberId from, const Message& message) const;
  void tell_outcast(MemberId outcast);
  // A process outside the view coordinates.
  bool is_led() const { return settings_.coordinator != kNobody; }
  bool may_say(MemberId from, Claim claim) const;
  bool believes(MemberId member, MemberId ended) const;
  Message decision() const;
  void report(Instant now);
  void complain(Instant now);
  void look_at_outcasts(Instant now);
  void on_out(MemberId from, const Message& message, Instant now);
  void on_absent(MemberId from, const Message& message, Instant now);
  Message make_report() const;
  void send_report(MemberId to, Message report, Instant now);
  Message make_boundary() const;
  bool has_reported(MemberId to, Instant now) const;
  void report_to_all();
  void on_refused(const Message& message, Instant now);
  void on_report(MemberId from, const Message& message, Instant now);
  void on_suspect(MemberId from, const Message& message, Instant now);
  void on_join(MemberId from, const Message& message, Instant now);
  void on_propose(MemberId from, const Message& message, Instant now);
  void on_decide(MemberId from, const Message& message, Instant now);
  std::optional<Message> in_full(const Message& decision) const;
  void begin_view(const Message& decision, Instant now);
  void on_ask(MemberId from, const Message& message, Instant now);
  void on_prepare(MemberId from, const Message& message, Instant now);
  Coordinator& own_coordinator(Instant now);
  void to_own(MemberId from, const Message& message, Instant now);
  void flush_own(Instant now);

  CommId world_;
  std::string name_;
  MemberId self_;
  WorldView view_;
  Reports reports_;           // of the last decision
  bool at_boundary_ = false;  // of the last decision
  Bytes statement_;           // that it was decided
  MembershipSettings settings_;
  Generation promised_;
  Generation rival_;                      // the last ballot promised to another coordinator
  std::optional<Message> accepted_;       // a proposal for the next epoch, in full
  MemberId first_coordinator_ = kNobody;  // of a founded world; until this member coordinates
  bool fenced_ = false;
  bool greeted_ = false;
  Generation greeted_with_;  // the promise that the last greeting told of
  std::string refusal_;
  Instant next_greeting_{};  // of the next greeting after a refusal

  std::set<MemberId> dead_;  // proven
  std::set<MemberId> silent_;
  std::set<MemberId> left_;
  std::set<MemberId> absent_;  // outcasts of the view that have answered, or have gone
  bool awaits_outcasts_ = false;
  Instant next_ask_{};           // when to tell outcasts and ask about them again
  std::set<MemberId> voted_;     // voted out, as a coordinator says
  bool stopping_ = false;        // StopFor was asked for, and not answered yet
  std::optional<Body> stopped_;  // what was reported
  // Bodies are numbered across views; `told_`: the member that the last one was sent to, and its
  // number.
  std::uint64_t body_number_ = 0;
  std::optional<std::pair<MemberId, std::uint64_t>> told_;
  Reported reported_;
  int unanswered_ = 0;                 // reports that were due again, in a row
  std::vector<MemberId> stopped_for_;  // sorted
  std::optional<std::pair<std::uint64_t, Body>> boundary_;
  std::uint64_t lobby_version_ = 0;
  std::optional<Instant> paused_;  // when the coordinator last said so
  Instant next_retry_{Duration::max()};

  std::unique_ptr<Coordinator> own_;
  int flushing_ = 0;
  std::vector<Action> actions_;
};

}  // namespace holdfast::ft
