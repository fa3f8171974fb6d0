// Messages of membership: between members and the coordinator, on control links. All have one
// shape, and most fields are empty in most messages. They come from the network: decoding is total
// and bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "ft/card_list.h"
#include "ft/reports.h"

namespace holdfast::ft {

// A ballot: count of take-overs (high) and rank of the coordinator (low 16 bits), so that no two
// coordinators have the same.
using Generation = Strong<struct GenerationTag, std::uint64_t>;

// Limit of a world's ranks, vacant ones included.
inline constexpr std::size_t kMaxRanks = 4096;
inline constexpr std::size_t kMaxMessageBytes = 64U << 20;
inline constexpr std::size_t kMaxCardBytes = 4096;
// A signature, and room for another kind of it.
inline constexpr std::size_t kMaxStatementBytes = 256;

// A member that was voted out without proof of its end, and may not know it yet: it may act in an
// older view.
struct Outcast {
  MemberId member;
  Rank rank;  // the rank that it had
  std::string card;
  friend bool operator==(const Outcast&, const Outcast&) = default;
};

// The agreed member list of a world, by rank; kNobody where a rank is vacant.
struct WorldView {
  Epoch epoch;
  std::vector<MemberId> members;
  // By rank: how to reach the member; opaque here. A rank that was vacated keeps its card until
  // somebody is seated, so that all know where the ranks were that plans of links start from.
  // Why: docs/decisions/0152-what-a-loss-leaves-of-a-plan.md
  CardList cards;
  std::uint64_t admitted = 0;     // version of the lobby that the last step boundary admitted
  std::vector<Outcast> outcasts;  // of this view's decision and earlier ones

  bool has(MemberId member) const;
  bool has_outcast(MemberId member) const;
  std::vector<MemberId> present() const;  // by rank, vacancies left out
  // Somebody was seated: forgets the cards of vacant ranks.
  void forget_vacated();
  friend bool operator==(const WorldView&, const WorldView&) = default;
};

// A process that wants to join, or joins.
struct Joiner {
  MemberId member;
  Rank wanted{-1};  // -1: any
  std::string card;
  friend bool operator==(const Joiner&, const Joiner&) = default;
};

// A view as its difference from the view before, for processes that have that one (view_change.h).
struct ViewChange {
  std::uint64_t base = 0;    // digest of the view before
  std::uint64_t result = 0;  // digest of the view that follows
  std::vector<Rank> vacated;
  std::vector<Joiner> seated;  // `wanted`: the rank that each gets
  std::uint64_t admitted = 0;
  std::vector<Rank> cast_out;    // those of `vacated` whose members are outcasts from now on
  std::vector<MemberId> absent;  // members that are outcasts no longer
  friend bool operator==(const ViewChange&, const ViewChange&) = default;
};

// A lost member by its rank in the view that the message is about.
struct LostRank {
  Rank rank;
  bool proven = false;
  friend bool operator==(const LostRank&, const LostRank&) = default;
};

enum class MessageKind : std::uint8_t {
  kSuspect = 1,  // member -> coordinator: `lost`, and no others, are silent
  kReport,       // member -> coordinator: has stopped for `lost`; body: what it holds
  kPrepare,      // coordinator -> members: stop for `lost`, and report
  kPropose,      // coordinator -> members: the next view, and what all reported
  kAccept,       // member -> coordinator: accepts the proposal, and none of a lower ballot later
  kDecide,       // coordinator -> members: all have accepted; the view begins
  kJoin,         // stranger -> any process: `joiners[0]` wants in; text: name of the world
  kRedirect,     // member -> stranger: ask joiners[0], the coordinator
  kLobby,        // coordinator -> all: `joiners` wait; `version` of the lobby; text: what for
  kReady,        // joiner -> coordinator: connected to all of view `epoch`
  kBoundary,     // member -> coordinator: at a step boundary, for lobby `version`; body: counts
  kRefused,      // coordinator -> any process: text says why; empty: it does not know this world
  kFenced,       // coordinator -> a member that was voted out; text says why
  kGreet,        // member -> coordinator outside the view: what it knows; text: name of the world
  kOut,          // fenced or departed member -> any process: takes no part in the world any more;
                 // `unproven`: the receiver, if the view `epoch` is without it
  kBehind,       // any process -> coordinator: lacks what the coordinator's message refers to
  kAsk,          // coordinator -> member: send in full what was referred to, and a later view
  kAbsent,       // member -> coordinator: the outcasts it waits for (`unproven`); coordinator ->
                 // member: those that have answered, or ended (`lost`)
};
inline constexpr int kMessageKindCount = 18;

struct Message {
  MessageKind kind{};
  CommId world;
  Generation generation;
  Epoch epoch;  // the view that it is about; decide: the new one
  // Version of the lobby; join: how many peers a new world waits for; report, greet: the ballot
  // that was promised to another coordinator before.
  std::uint64_t version = 0;
  // Decide: at a step boundary, not after a loss. Lobby: members wait at their next step boundary.
  bool boundary = false;
  bool elastic = false;       // greet: the world may grow
  MemberId origin = kNobody;  // suspect: the member that said so, when another one passes it on
  std::vector<MemberId> lost;
  std::vector<MemberId> unproven;    // those of `lost` that are only silent
  std::vector<LostRank> lost_ranks;  // report: instead of `lost` and `unproven`
  // Stands for what is left out. Report, boundary: for the groups in the body. Decide, and a
  // proposal in `accepted`: for what was accepted. Lobby: for the view.
  std::uint64_t digest = 0;
  Body body;
  // Report: the number of the body among its member's bodies; `repeats`: the body is left out, for
  // it was sent before.
  std::uint64_t body_number = 0;
  bool repeats = false;
  Bytes accepted;  // report, greet: an encoded proposal
  // Propose, decide: the next view; lobby: the current one; other kinds: a later view, for a
  // coordinator that asked.
  WorldView view;
  std::optional<ViewChange> change;  // propose, decide: instead of the view
  Reports reports;                   // propose, decide; without member ids beside `change`
  std::vector<Joiner> joiners;
  std::string text;
  // With a view that was decided: what shows that it was (notary.h).
  Bytes statement;
  friend bool operator==(const Message&, const Message&) = default;
};

// One line that people can read.
std::string to_string(const Message& message);

Bytes encode(const Message& message);
// kProtocolError for anything encode() does not make.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace holdfast::ft
