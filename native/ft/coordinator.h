// Coordinator: decides the next view of one world. Sans-IO, soft state only: all of it can be
// rebuilt from the members, so a coordinator may die at any time. It does not depend on where it
// runs: in a member, or in a process of its own.
//
// A loss: members report that they have stopped, and what they hold. When all members that stay
// have reported for the same lost members, and the quorum allows it, the coordinator proposes the
// next view with all reports, and decides it when all members that stay have accepted. A join:
// strangers wait in the lobby until they are connected to all members and to each other; when all
// members are at a step boundary, the next view includes the strangers.
//
// Two coordinators may live at the same time. Each epoch is a round of Paxos (Lamport 2001), in
// which a report is the promise: it names the proposal that its member has accepted, and the
// coordinator proposes the one of the highest ballot again.
// Why: docs/decisions/0019-an-epoch-is-a-round-of-paxos.md
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ft/message.h"
#include "ft/notary.h"
#include "ft/quorum.h"
#include "ft/record.h"
#include "ft/standing.h"
#include "ft/witness.h"

namespace holdfast::ft {

// Limit of strangers that wait at the same time.
inline constexpr std::size_t kMaxLobby = 1024;

struct CoordinatorSettings {
  Duration heartbeat = std::chrono::milliseconds(500);
  Duration silence = std::chrono::seconds(10);  // until a member that has gone may be voted out
  bool outside = false;                         // runs outside the view
  bool elastic = false;                         // the world may grow beyond its ranks
  bool founding = false;      // outside: the world begins with strangers, not with a member's view
  std::size_t min_peers = 1;  // elastic: the first view waits for so many
  Record* record = nullptr;   // outside: keeps its decisions, if set; outlives this
  // Outside: signs its decisions, and only signed views are learnt from others, if set; outlives
  // this.
  Notary* notary = nullptr;
  MemberId self = kNobody;  // inside: the member whose process this is
  HostOfCard host_of = {};  // with a secret: whose word proves a death
  // Outside, begun anew: decides nothing before, so that who has a later view comes first.
  Instant decides_from{};
};

class Coordinator {
 public:
  using Sends = std::vector<std::pair<MemberId, Message>>;

  Coordinator(CommId world, std::string name, Generation generation,
              const CoordinatorSettings& settings)
      : world_(world), name_(std::move(name)), generation_(generation), settings_(settings) {}

  Generation generation() const { return generation_; }
  const WorldView& view() const { return view_; }
  bool began_at_boundary() const { return last_at_boundary_; }  // the view
  const std::string& name() const { return name_; }
  CommId world() const { return world_; }
  std::size_t waiting() const { return lobby_.size(); }
  bool is_waiting(MemberId process) const { return lobby_.contains(process); }
  std::vector<MemberId> lobby() const;
  bool knows(MemberId process) const {
    return lobby_.contains(process) || view_.has(process) || view_.has_outcast(process);
  }
  bool is_elastic() const { return settings_.elastic; }
  // Whether no member that stays is heard.
  bool is_deaf() const;
  // Whether it had members and all of them have ended, which is proven. A member that cannot be
  // reached may live.
  bool is_deserted() const;
  // Whether a member was voted out and may not know it; it would go on alone.
  bool awaits_outcasts() const { return !outcasts_.empty(); }
  // Says why the world waits (blocked()); it does not begin before this is empty.
  void hold(const std::string& why, Instant now);
  bool is_held() const { return !held_.empty(); }
  // Frees its name: processes in its lobby ask for another world of that name.
  void give_up_name();
  std::size_t min_peers() const { return settings_.min_peers; }
  // Only before the first view.
  void set_min_peers(std::size_t count) { settings_.min_peers = count; }
  // Starts from a view that is known.
  // `established`: all members have promised its ballot.
  void begin(WorldView view, Reports reports, bool boundary, bool established);

  void on_message(MemberId from, const Message& message, Instant now);
  // The process has ended, which is proven.
  void on_closed(MemberId member, Instant now);
  // Nothing was heard of the process for too long.
  void on_silent(MemberId member, Instant now);
  // For a coordinator outside the view: it does not hear the member. Members may still hear each
  // other, so this counts only where a member is complained of, or is needed for a decision.
  void on_unheard(MemberId member, Instant now);
  void on_heard(MemberId member) { unheard_.erase(member); }
  // For a coordinator that is one of the members: a silent member is heard again.
  void on_back(MemberId member, Instant now) { take_back(member, now); }
  // The connection to the member broke and was made again: the member is told again what it has not
  // answered.
  void on_relinked(MemberId member);
  // The connection to the process has ended; the process may come back.
  void on_strayed(MemberId member);
  void tick(Instant now);
  Instant next_tick() const { return next_retry_; }

  // What an operator asks of a coordinator outside the view. A refusal is kConfigError, with what
  // is accepted. All of it is soft state: a coordinator that begins anew has heard of none.
  // Why: docs/decisions/0163-an-operator-acts-through-pages.md
  //
  // The member is out of the view that begins at once, as one that is silent for too long.
  Status kick(Rank rank, const std::string& why, Instant now);
  // The member is out of the view that begins at the members' next step boundary, if they reach one
  // before `until`.
  Status drain(Rank rank, const std::string& why, Instant until);
  // Members that reach a step boundary wait there, until `until` or resume().
  Status pause(Instant until);
  void resume(Instant now);
  std::optional<Instant> paused_until() const { return orders_.paused_until; }
  // Of a paused world: whether all members wait.
  bool is_at_rest() const;
  // What was asked of the member and has not come about: "kick", "drain", "".
  std::string order_for(MemberId member) const;

  // Messages to be sent, in order.
  Sends take_sends() { return std::exchange(sends_, {}); }
  // Why the last loss cannot be decided, or the world not begin yet; empty when nothing is in the
  // way.
  const std::string& blocked() const { return held_.empty() ? blocked_ : held_; }

 private:
  // What a member said: the digest of its groups, which many members have alike (known_groups_),
  // and its ops.
  struct SaidGroups {
    std::uint64_t groups = 0;
    Bytes ops;
  };
  // A proposal for the next view, as a member has accepted it.
  struct Accepted {
    Generation ballot;
    std::uint64_t digest = 0;      // of what it decides
    std::optional<Message> whole;  // the proposal; nullopt: another report has it
  };
  struct Report {
    std::vector<MemberId> lost;  // sorted
    SaidGroups said;
    std::optional<Accepted> accepted;
  };
  struct WaitingJoiner {
    Joiner joiner;
    Instant since;
    std::uint64_t joined = 0;     // number of its late join
    std::uint64_t ready = 0;      // connected to all joiners up to this number; 0: none
    std::optional<Epoch> told{};  // the view that the joiner has been told of
  };
  struct Orders {
    std::map<MemberId, Instant> draining;  // until when a boundary is awaited
    // Members that were drained or kicked, or are about to be: why. They may not come back.
    std::map<MemberId, std::string> out;
    std::optional<Instant> paused_until;
  };
  Message make(MessageKind kind) const;
  void send(MemberId to, Message message) { sends_.emplace_back(to, std::move(message)); }
  Listener standing() const;
  Speaker standing_of(MemberId from, const Message& message, bool is_news);
  bool may_say(MemberId from, const Message& message, bool is_news);
  bool refutes(const Message& message);
  void object(MemberId from, const Message& message);
  bool has_news(const Message& message) const;
  void learn(const Message& message);
  void ask(MemberId member) { send(member, make(MessageKind::kAsk)); }
  void ask_for_view(MemberId member, Instant now);
  SaidGroups take_said(const Message& message);
  std::optional<SaidGroups> take_body(MemberId from, const Message& message);
  std::optional<Accepted> take_accepted(const Message& value) const;
  const Message* value_of(const Accepted& accepted) const;
  void forget_reports();
  void ask_once(MemberId member, std::uint64_t digest);
  bool know_groups(const std::vector<std::pair<MemberId, const SaidGroups*>>& all);
  void keep_groups(const Reports& reports);
  void answer_behind(MemberId from, const Message& message);
  void send_decided(MemberId to, Epoch its);
  void tell_waiting(WaitingJoiner& waiting);
  Message named_decision() const;
  void on_report(MemberId from, const Message& message, Instant now);
  void on_suspect(MemberId from, const Message& message, Instant now);
  void on_boundary(MemberId from, const Message& message, Instant now);
  void on_accept(MemberId from, const Message& message, Instant now);
  void on_greet(MemberId from);
  bool drop_unheard(Instant now);
  void on_join(MemberId from, const Message& message, Instant now);
  void on_ready(MemberId from, const Message& message, Instant now);
  void take_back(MemberId member, Instant now);
  void take_back_heard(Instant now);
  void lose(MemberId member, bool proven, Instant now);
  bool weigh_complaints(Instant now);
  bool is_unheard(MemberId member) const;
  bool is_quarrel(MemberId accuser, MemberId accused, Instant since, Instant now) const;
  void fence(MemberId member, const std::string& why);
  void tell_outcasts();
  std::vector<MemberId> staying() const;
  std::vector<MemberId> lost() const;
  void prepare(Instant now);
  Message make_prepare() const;
  bool has_reported(MemberId member, const std::vector<MemberId>& lost) const;
  void try_decide(Instant now);
  bool allowed(Instant now);
  Vote vote_of(std::vector<MemberId> staying) const;
  Result<MemberId> to_go(Rank rank) const;
  void note_out(MemberId member, std::string why);
  void vacate(WorldView& view);
  bool is_kicked(MemberId member) const;
  void look_at_orders(Instant now);
  void forget_orders();
  bool breaks_ties() const { return tie_since_ != Generation{} && rival_ < tie_since_; }
  void note_promise(MemberId from, const Message& message);
  WorldRecord entry_of(const WorldView& view) const { return {world_, view.epoch, view.present()}; }
  std::string record_key() const;
  bool read_record();
  bool write_record(const WorldView& next);
  bool is_recorded() const { return recorded_ && *recorded_ == entry_of(view_); }
  // Whether the record has a later view of this world than the members.
  bool is_behind() const {
    return recorded_ && recorded_->world == world_ && recorded_->epoch > view_.epoch;
  }
  bool is_excluded(MemberId member) const;
  void exclude();
  void follow_record(const Message* accepted, Instant now);
  void decide(Instant now);
  void try_admit(Instant now);
  bool try_first_view(Instant now);
  std::vector<WaitingJoiner> admissible() const;
  void seat(WorldView& view, const std::vector<WaitingJoiner>& joiners) const;
  void propose(Message value, Instant now);
  void try_commit(Instant now);
  void publish(Message value, Instant now);
  void raise_ballot(Instant now);
  Duration retry_time() const;
  void raise_generation();
  bool is_at_work() const { return proposal_ || !lost_.empty() || !reports_.empty(); }
  Message decided() const;
  std::optional<std::string> objection(const WaitingJoiner& waiting, Instant now) const;
  void refuse_the_late(Instant now);
  void tell_lobby(bool newly_ready);
  void ask_to_meet() { tell_lobby(true); }
  std::string lobby_reason() const;
  WorldView next_view() const;
  static void cast_out(WorldView& view, Outcast outcast);
  void take_outcasts();
  void on_absent(MemberId outcast);
  void answer_absent(MemberId from, const Message& asked);
  void tell_absent(MemberId member, std::vector<MemberId> absent);
  void note_heard(MemberId member);

  CommId world_;
  std::string name_;
  Generation generation_;
  CoordinatorSettings settings_;
  WorldView view_;
  Reports last_reports_;
  bool last_at_boundary_ = false;
  std::optional<Message> last_change_;  // the last decision, for members that have the view before
  Bytes statement_;                     // that it was decided

  bool established_ = false;
  bool asked_ = false;              // all members that stay were asked for their reports
  bool stopped_elsewhere_ = false;  // a member has stopped for a higher ballot
  Generation outranked_by_;         // the highest ballot that a member has promised
  std::optional<Message> proposal_;
  std::set<MemberId> accepted_by_;

  // The members that have promised this ballot; the ballot since which this coordinator breaks ties
  // in this view (0: it does not); the highest ballot that a member has promised to another
  // instance.
  std::set<MemberId> promised_by_;
  Generation tie_since_;
  Generation rival_;
  bool record_read_ = false;
  std::optional<WorldRecord> recorded_;
  std::string held_;

  std::map<MemberId, bool> lost_;  // whether the death is proven
  std::set<MemberId> accused_;     // lost by complaints alone; this process may hear them
  // By member: the members it does not hear, by its last complaint, and since when.
  std::map<MemberId, std::map<MemberId, Instant>> complaints_;
  // The view's outcasts: those that are told why until they have answered or ended; and those that
  // have.
  std::map<MemberId, std::string> outcasts_;
  std::set<MemberId> absent_;
  std::set<MemberId> heard_;             // processes of the view and the lobby that have been heard
  std::map<MemberId, Instant> unheard_;  // since when
  Instant deaf_until_{};  // no member was heard: until then they have time to come back
  std::map<MemberId, Report> reports_;
  std::map<MemberId, std::pair<std::uint64_t, SaidGroups>>
      bodies_;                         // of the members' last reports, with their numbers
  std::optional<Accepted> withdrawn_;  // the own proposal of a lower ballot
  std::map<MemberId, std::pair<std::uint64_t, SaidGroups>>
      boundaries_;                               // lobby version, what was said
  std::map<std::uint64_t, Bytes> known_groups_;  // by digest: those of the last view, and new ones
  std::set<std::uint64_t> asked_for_;            // digests that a member was asked for
  Instant view_asked_until_{};                   // a member with a later view was asked
  Orders orders_;
  std::map<MemberId, WaitingJoiner> lobby_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t version_ = 0;  // of the lobby, as members compare it
  Instant next_retry_{};
  std::string blocked_;
  Sends sends_;
};

}  // namespace holdfast::ft
