// Witness: whose word that a member's process has ended is proof to others.
//
// Without a secret it is every member's. With one it is that of members on the dead one's host, as
// the cards in the view name it: a process elsewhere has no kernel to ask, only packets, and these
// anybody may have sent. What a process knows by itself (the kernel of its host, a goodbye that it
// heard) is no witness's word, and counts for itself alone.
// Why: docs/decisions/0167-with-a-secret-no-packet-proves-a-death.md
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "base/planted.h"
#include "ft/message.h"

namespace holdfast::ft {

// The host that a card names; empty: none. No function: there is no secret.
using HostOfCard = std::function<std::string(const std::string& card)>;

// Empty: no member of the view, and none of its outcasts.
inline std::string card_in(const WorldView& view, MemberId member) {
  const auto at = std::find(view.members.begin(), view.members.end(), member);
  if (at != view.members.end() && member != kNobody) {
    return view.cards[static_cast<std::size_t>(at - view.members.begin())];
  }
  for (const Outcast& outcast : view.outcasts) {
    if (outcast.member == member) return outcast.card;
  }
  return {};
}

// Whether the word of `witness` that the process of `ended` has ended is proof; both are members.
inline bool is_witness(const WorldView& view, const HostOfCard& host_of, MemberId witness,
                       MemberId ended) {
  if (!host_of || is_planted(Planted::kBelieveAfar)) return true;
  if (!view.has(witness) || !view.has(ended)) return false;
  const std::string host = host_of(card_in(view, ended));
  return !host.empty() && host == host_of(card_in(view, witness));
}

}  // namespace holdfast::ft
