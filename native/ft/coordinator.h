// Coordinator: decides the next view of one world. Sans-IO, soft state only: all of it can be had
// again from the members, so a coordinator may die at any time. Where it lives (in a member, or in
// a process of its own) is not its business.
//
// A loss: members report that they have stopped, and what they hold; when all who stay have
// reported for the same lost members, and the quorum allows it, it proposes the next view with all
// reports, and decides it when all who stay have accepted. A join: strangers wait in the lobby
// until they are connected to everybody; when all members are at a step boundary, the next view has
// them.
//
// Two coordinators may live at the same time. Each epoch is a round of Paxos (Lamport 2001), a
// report being the promise: a report names the proposal that its member has accepted, and the
// coordinator proposes the one of the highest ballot again.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ft/message.h"

namespace holdfast::ft {

// Strangers that may wait at the same time.
inline constexpr std::size_t kMaxLobby = 1024;

struct CoordinatorSettings {
  Duration heartbeat = std::chrono::milliseconds(500);
  bool authority = false;     // lives outside the view: nobody else can decide
  bool elastic = false;       // the world may grow beyond its ranks
  std::size_t min_peers = 1;  // elastic: the first view waits for so many
};

class Coordinator {
 public:
  using Sends = std::vector<std::pair<MemberId, Message>>;

  Coordinator(CommId world, std::string name, Generation generation,
              const CoordinatorSettings& settings)
      : world_(world), name_(std::move(name)), generation_(generation), settings_(settings) {}

  Generation generation() const { return generation_; }
  const WorldView& view() const { return view_; }
  const std::string& name() const { return name_; }
  CommId world() const { return world_; }
  std::size_t waiting() const { return lobby_.size(); }
  // It had members, and all of them have gone.
  bool is_deserted() const { return view_.epoch.value > 0 && staying().empty(); }
  std::size_t min_peers() const { return settings_.min_peers; }
  // Before the first view.
  void set_min_peers(std::size_t count) { settings_.min_peers = count; }
  // The view to start from, when it is known.
  // `established`: all members have promised its ballot.
  void begin(WorldView view, std::vector<std::pair<MemberId, Bytes>> reports, bool boundary,
             bool established);

  void on_message(MemberId from, const Message& message, Instant now);
  // The connection to the process was closed from its side.
  void on_closed(MemberId member, Instant now);
  // Nothing was heard of the process for too long.
  void on_silent(MemberId member, Instant now);
  // For a coordinator outside the view. Members may hear each other when it does not hear them: its
  // word counts where a member is complained of, or is needed for a decision.
  void on_unheard(MemberId member, Instant now);
  void on_heard(MemberId member) { unheard_.erase(member); }
  // The connection has ended; the process may come back.
  void on_strayed(MemberId member);
  void tick(Instant now);
  Instant next_tick() const { return next_retry_; }

  // Messages to be sent, in order.
  Sends take_sends() { return std::exchange(sends_, {}); }
  // Why the last loss cannot be decided yet; empty when nothing is in the way.
  const std::string& blocked() const { return blocked_; }

 private:
  struct Report {
    std::vector<MemberId> lost;  // sorted
    Bytes body;
    std::optional<Message> accepted;
  };
  struct Waiting {
    Joiner joiner;
    Instant since;
    std::uint64_t joined = 0;  // number of the arrival
    std::uint64_t ready = 0;   // arrivals it is connected to; 0: none
  };
  Message make(MessageKind kind) const;
  void send(MemberId to, Message message) { sends_.emplace_back(to, std::move(message)); }
  void learn(const Message& message);
  void on_report(MemberId from, const Message& message, Instant now);
  void on_suspect(MemberId from, const Message& message, Instant now);
  void on_boundary(MemberId from, const Message& message, Instant now);
  void on_accept(MemberId from, const Message& message, Instant now);
  void on_greet(MemberId from);
  bool drop_unheard(Instant now);
  void on_join(MemberId from, const Message& message, Instant now);
  void on_ready(MemberId from, const Message& message, Instant now);
  void take_back(MemberId member, Instant now);
  void lose(MemberId member, bool proven, Instant now);
  bool weigh_complaints(Instant now);
  std::vector<MemberId> staying() const;
  std::vector<MemberId> lost() const;
  void prepare(Instant now);
  void try_decide(Instant now);
  bool allowed();
  void decide(const std::vector<MemberId>& gone, Instant now);
  void try_admit(Instant now);
  bool try_first_view(Instant now);
  std::vector<Waiting> admissible() const;
  void seat(WorldView& view, const std::vector<Waiting>& joiners) const;
  void propose(Message value, Instant now);
  void try_commit(Instant now);
  void publish(Message value, Instant now);
  void raise_ballot(Instant now);
  bool is_at_work() const { return proposal_ || !lost_.empty() || !reports_.empty(); }
  Message decided() const;
  std::optional<std::string> objection(const Waiting& waiting, Instant now) const;
  void refuse_the_late(Instant now);
  void tell_lobby(bool newly_ready);

  CommId world_;
  std::string name_;
  Generation generation_;
  CoordinatorSettings settings_;
  WorldView view_;
  std::vector<std::pair<MemberId, Bytes>> last_reports_;
  bool last_at_boundary_ = false;

  bool established_ = false;
  bool stopped_elsewhere_ = false;  // a member has, for a coordinator of a higher ballot
  Generation outranked_by_;         // the highest ballot that a member has promised to another
  std::optional<Message> proposal_;
  std::set<MemberId> accepted_by_;

  std::map<MemberId, bool> lost_;  // whether the death is proven
  // Pairs of members of which one does not hear the other, and since when.
  std::map<std::pair<MemberId, MemberId>, Instant> complaints_;
  std::set<MemberId> unheard_;
  std::map<MemberId, Report> reports_;
  std::map<MemberId, std::pair<std::uint64_t, Bytes>> boundaries_;  // lobby version, counts
  std::map<MemberId, Waiting> lobby_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t version_ = 0;  // of the lobby, as members compare it
  Instant next_retry_{};
  std::string blocked_;
  Sends sends_;
};

}  // namespace holdfast::ft
