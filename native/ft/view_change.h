// View change: the next view as its difference from the one before, which all members have; where
// even the difference is known, its digest names it. A process that lacks what a message refers to
// says so, and is told the whole: nothing is guessed.
// Why: docs/decisions/0027-a-view-carries-what-it-was-decided-on.md
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ft/message.h"

namespace holdfast::ft {

std::uint64_t digest_of(const WorldView& view);
// The digest of what a proposal or decision decides: the view, the reports, whether at a step
// boundary; the ballot is no part of it.
std::uint64_t digest_of_value(const Message& whole);

// Shortens a report or a boundary message for another process: its groups are named by their
// digest, since most members have the same, and the lost members of `view` by their ranks.
Message abridged(Message message, const WorldView& view);
// The members that a report says are lost, in ascending order, and whether that is proven. Ranks of
// another view than `view` are left out.
std::vector<std::pair<MemberId, bool>> losses_of(const Message& report, const WorldView& view);
// The proposal as its ballot and the digest of what it decides.
Message named(const Message& proposal);
// The proposal or decision as its difference from `base`, for members of that view; unchanged if
// they could not rebuild it from `base`.
Message by_difference(const Message& whole, const WorldView& base);
// Fills in the view and the reports of a difference; false: it does not refer to `base`. A message
// that is whole stays as it is.
bool spell_out(Message& message, const WorldView& base);

}  // namespace holdfast::ft
