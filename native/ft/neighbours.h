// Which members of a world keep connections with each other whatever they call. In a full mesh all
// do. In a sparse one each keeps them with its nearest ranks, so that every member's end is seen by
// some, and with the coordinator, which what they have seen goes through; all other pairs are
// connected when an op or a message first needs it.
// Why: docs/decisions/0171-connections-where-ops-need-them.md
#pragma once

#include <cstddef>
#include <vector>

#include "ft/message.h"

namespace holdfast::ft {

enum class Mesh : std::uint8_t { kAuto, kFull, kSparse };

// Most ranks of a world that is a full mesh by kAuto. Below it all connections of a host cost less
// than the memory that its ranks share saves.
inline constexpr std::size_t kMostFullRanks = 32;
// A member is connected with so many ranks on either side: two may end at once and leave no member
// unseen.
inline constexpr std::size_t kNearRanks = 2;

// Whether a world of so many ranks, vacant ones included, is sparse.
bool is_sparse(Mesh mesh, std::size_t ranks);

// Of a sparse world: the members that `self` keeps connections with, by rank. `led`: a process
// outside the view coordinates; otherwise the first member does. Symmetric: who is a neighbour of a
// member has it as a neighbour. Empty: `self` is not in the view.
std::vector<MemberId> neighbours(const WorldView& view, MemberId self, bool led);

// As neighbours(), of a group's members by rank, kNobody where vacant: its ring, and no
// coordinator.
std::vector<MemberId> near_members(const std::vector<MemberId>& members, MemberId self);

}  // namespace holdfast::ft
