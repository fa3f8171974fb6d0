// Standing: who may say what. One table says which messages a process takes, by what it is itself,
// by what the sender is to it, and by what the message claims. Membership, Joining and Coordinator
// ask it before they look at what a message says: a sender's word is never evidence of its
// standing. Why: docs/decisions/0154-who-may-say-what.md
#pragma once

#include <cstdint>

#include "ft/message.h"

namespace holdfast::ft {

// What a process that gets a message is.
enum class Listener : std::uint8_t {
  kMember,      // of a world that has no coordinator but its members
  kLedMember,   // of a world that a process outside the view coordinates
  kJoiner,      // wants to become a member
  kFounding,    // coordinator outside the view, of a world that begins with the processes that wait
  kStarted,     // coordinator outside the view that has yet to learn of a world from a member
  kCoordinator  // of a view that it knows
};
inline constexpr int kListenerCount = 6;

// What its sender is to that process.
enum class Speaker : std::uint8_t {
  kCoordinator,  // for a led member: its coordinator; for a joiner: a process that it was told to
                 // ask
  kMember,   // of the view that the listener knows, or, by a coordinator's record, of a later one
  kOutcast,  // of that view: voted out, and may not know it
  kWaiting,  // in the coordinator's lobby
  kStranger,
};
inline constexpr int kSpeakerCount = 5;

// What a message claims: its kind's number, the lowest of which is 1. Two kinds may speak of more
// than their sender, which is a claim of its own.
enum class Claim : std::uint8_t {
  kYouAreOut = kMessageKindCount + 1,  // out, with `unproven`: the receiver was voted out, besides
  kTheyAreGone,  // absent, with `lost`: these outcasts have answered or ended; not a question
  kShownOut,  // fenced, or out with `unproven`, with the signed view that is without the receiver
};
inline constexpr int kClaimCount = kMessageKindCount + 3;

// Never kYouAreOut or kShownOut: what its sender says of itself counts without it.
Claim claim_of(const Message& message);
inline constexpr Claim plain(MessageKind kind) { return static_cast<Claim>(kind); }

bool may_say(Listener listener, Speaker speaker, Claim claim);

}  // namespace holdfast::ft
