// View change: the next view as what changes in the one before, which all members have, and named
// by a digest where even that is known. Whoever does not have what is referred to says so, and is
// told the whole: nothing is guessed.
// Why: docs/decisions/0027-a-view-carries-what-it-was-decided-on.md
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ft/message.h"

namespace holdfast::ft {

std::uint64_t digest_of(const WorldView& view);
// Of what a proposal or decision decides: the view, the reports, whether at a step boundary; the
// ballot is no part of it.
std::uint64_t digest_of_value(const Message& whole);

// A report, or word of a boundary, for somebody else: its groups are named by their digest, since
// most others have the same, and the lost members of `view` by their ranks.
Message abridged(Message message, const WorldView& view);
// Whom a report says to be lost, in ascending order, and whether that is proven. Nobody, where
// ranks are those of another view than `view`.
std::vector<std::pair<MemberId, bool>> losses_of(const Message& report, const WorldView& view);
// A proposal by its ballot and the digest of what it decides.
Message named(const Message& proposal);
// The proposal or decision for members of `base`. Itself, if it is not made of `base` as they would
// make it.
Message by_difference(const Message& whole, const WorldView& base);
// The view and the reports in full; false: `base` is not what it refers to. A message that is whole
// stays as it is.
bool spell_out(Message& message, const WorldView& base);

}  // namespace holdfast::ft
