// Messages of membership: between members and the coordinator, on control links. One shape for all
// of them, most fields empty in most. They come from the network: decoding is total and bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "ft/reports.h"

namespace holdfast::ft {

// A ballot: count of take-overs (high) and rank of the coordinator (low 16 bits), so that no two
// coordinators have the same.
using Generation = Strong<struct GenerationTag, std::uint64_t>;

// Ranks of a world, vacant ones included.
inline constexpr std::size_t kMaxRanks = 4096;
inline constexpr std::size_t kMaxMessageBytes = 64U << 20;
inline constexpr std::size_t kMaxCardBytes = 4096;

// Who was voted out without proof of its end, and may not know it yet: it may act in an older view.
struct Outcast {
  MemberId member;
  Rank rank;  // that it had
  std::string card;
  friend bool operator==(const Outcast&, const Outcast&) = default;
};

// The agreed member list of a world, by rank; kNobody where a rank is vacant.
struct WorldView {
  Epoch epoch;
  std::vector<MemberId> members;
  std::vector<std::string> cards;  // by rank: how to reach the member; opaque here
  std::uint64_t admitted = 0;      // version of the lobby that a step boundary has dealt with
  std::vector<Outcast> outcasts;   // of this view's decision and earlier ones

  bool has(MemberId member) const;
  bool has_outcast(MemberId member) const;
  std::vector<MemberId> present() const;  // by rank, vacancies left out
  friend bool operator==(const WorldView&, const WorldView&) = default;
};

// Whoever wants in, or comes in.
struct Joiner {
  MemberId member;
  Rank wanted{-1};  // -1: any
  std::string card;
  friend bool operator==(const Joiner&, const Joiner&) = default;
};

// The view that follows another one, as what changes, for those who have that (view_change.h).
struct ViewChange {
  std::uint64_t base = 0;    // digest of the view that it follows,
  std::uint64_t result = 0;  // and of what follows it
  std::vector<Rank> vacated;
  std::vector<Joiner> seated;  // where they wanted to be
  std::uint64_t admitted = 0;
  std::vector<Rank> cast_out;    // of the vacated: their members are outcasts from now on
  std::vector<MemberId> absent;  // outcasts who are none any more
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
  kAccept,       // member -> coordinator: takes the proposal, and none of a lower ballot
  kDecide,       // coordinator -> members: all have accepted; the view begins
  kJoin,         // stranger -> anybody: `joiners[0]` wants in; text: name of the world
  kRedirect,     // member -> stranger: ask joiners[0], the coordinator
  kLobby,        // coordinator -> all: `joiners` wait; `version` of the lobby; text: what for
  kReady,        // joiner -> coordinator: connected to all of view `epoch`
  kBoundary,     // member -> coordinator: at a step boundary, for lobby `version`; body: counts
  kRefused,      // coordinator -> anybody: text says why; none: it does not know this world yet
  kFenced,       // coordinator -> a member that was voted out; text says why
  kGreet,        // member -> coordinator outside the view: what it knows; text: name of the world
  kOut,          // who is fenced, or has left -> anybody: it takes no part in the world any more;
                 // `unproven`: who asked, if the view `epoch` is without it
  kBehind,       // anybody -> coordinator: does not have what a message of its refers to
  kAsk,          // coordinator -> member: say in full what it has referred to, and a later view
  kAbsent,       // member -> coordinator: which outcasts it waits for (`unproven`); coordinator ->
                 // member: which have answered, or ended (`lost`)
};
inline constexpr int kMessageKindCount = 18;

struct Message {
  MessageKind kind{};
  CommId world;
  Generation generation;
  Epoch epoch;  // the view that it is about; decide: the new one
  // Of the lobby; join: how many peers a new world waits for; report, greet: the ballot that was
  // promised to another coordinator before.
  std::uint64_t version = 0;
  bool boundary = false;      // decide: at a step boundary, not after a loss
  bool elastic = false;       // greet: the world may grow
  MemberId origin = kNobody;  // suspect: who said so, when another member passes it on
  std::vector<MemberId> lost;
  std::vector<MemberId> unproven;    // those of `lost` that are only silent
  std::vector<LostRank> lost_ranks;  // report: instead of `lost` and `unproven`
  // Report, boundary: of the groups in the body, which are left out. Decide, and a proposal in
  // `accepted`: of what was accepted, which is. Lobby: of the view, likewise.
  std::uint64_t digest = 0;
  Body body;
  // Report: of its member's bodies, which this is; `repeats`: it is left out, for it was said
  // before.
  std::uint64_t body_number = 0;
  bool repeats = false;
  Bytes accepted;  // report, greet: an encoded proposal
  // Propose, decide: the next view; lobby; whatever else names a later view to who asks.
  WorldView view;
  std::optional<ViewChange> change;  // propose, decide: instead of the view
  Reports reports;                   // propose, decide; without names beside `change`
  std::vector<Joiner> joiners;
  std::string text;
  friend bool operator==(const Message&, const Message&) = default;
};

// A line for people.
std::string to_string(const Message& message);

Bytes encode(const Message& message);
// kProtocolError for anything encode() does not make.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace holdfast::ft
