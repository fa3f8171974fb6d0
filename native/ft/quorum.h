// Quorum: who may decide the next view. Pure.
//
// A closed connection proves that the peer's process has gone: only its kernel can say so. Silence
// proves nothing; the peer may live behind a partition and hold a vote of its own. Hence:
//   - all lost members are proven dead: whoever is left decides, however few;
//   - some are only silent: those who stay must be more than half of the view, or exactly half with
//     the view's first member among them.
// Two sets that satisfy this share a living member, which reports to one coordinator at a time, or
// one of them is all dead: so views form one sequence. A coordinator of its own process is the only
// authority and needs no vote.
#pragma once

#include <algorithm>
#include <vector>

#include "base/planted.h"
#include "base/types.h"

namespace holdfast::ft {

struct Vote {
  std::vector<MemberId> view;  // members of the view that ends, by rank
  std::vector<MemberId> staying;
  bool all_proven = false;  // every other member's death is proven
  bool authority = false;   // decided by a coordinator outside the view
};

inline bool may_decide(const Vote& vote) {
  if (vote.staying.empty()) return false;
  if (vote.all_proven || vote.authority || is_planted(Planted::kMinority)) return true;
  if (2 * vote.staying.size() != vote.view.size()) {
    return 2 * vote.staying.size() > vote.view.size();
  }
  const auto first = vote.view.front();
  return std::find(vote.staying.begin(), vote.staying.end(), first) != vote.staying.end();
}

}  // namespace holdfast::ft
