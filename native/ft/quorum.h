// Quorum: which members may decide the next view. Pure functions.
//
// Silence proves nothing; the peer may live behind a partition and hold a vote of its own. Hence:
//   - all lost members are proven dead: the members that are left decide, however few;
//   - some are only silent: the members that stay must be more than half of the view, or exactly
//     half with the one vote that breaks the tie.
// Two sets that satisfy this share a living member, which reports to one coordinator at a time, or
// all members of one set are dead: so views form one sequence. The tie is broken by the view's
// first member; for a coordinator outside the view, by the one instance that decided this view
// itself, or was promised it by more than half of the members: an instance that was started later
// must not break it.
//
// A durable record is the one voter that counts: what is written there is decided.
// Why: docs/decisions/0124-an-outside-coordinator-is-one-voter.md
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/planted.h"
#include "base/types.h"

namespace holdfast::ft {

enum class HalfOfView : std::uint8_t {
  kWithFirst,  // decides with the view's first member in it
  kEnough,     // this coordinator breaks the tie
  kTooFew,     // this coordinator does not break the tie
};

struct Vote {
  std::vector<MemberId> view;  // members of the view that ends, by rank
  std::vector<MemberId> staying;
  bool all_proven = false;  // every other member's death is proven
  bool recorded = false;    // a durable record names the view, and will name the next
  HalfOfView half = HalfOfView::kWithFirst;
};

inline bool may_decide(const Vote& vote) {
  if (vote.staying.empty()) return false;
  if (vote.all_proven || vote.recorded || is_planted(Planted::kMinority)) return true;
  if (2 * vote.staying.size() != vote.view.size()) {
    return 2 * vote.staying.size() > vote.view.size();
  }
  if (vote.half != HalfOfView::kWithFirst) return vote.half == HalfOfView::kEnough;
  const auto first = vote.view.front();
  return std::find(vote.staying.begin(), vote.staying.end(), first) != vote.staying.end();
}

}  // namespace holdfast::ft
