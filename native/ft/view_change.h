// View change: the next view as what changes in the one before, which all members have, and named
// by a digest where even that is known. Whoever does not have what is referred to says so, and is
// told the whole: nothing is guessed.
#pragma once

#include <optional>

#include "ft/message.h"

namespace holdfast::ft {

std::uint64_t digest_of(const WorldView& view);
// Of what a proposal or decision decides: the view, the reports, whether at a step boundary; the
// ballot is no part of it.
std::uint64_t digest_of_value(const Message& whole);

// A report, or word of a boundary, with its groups named by their digest: most others have the
// same.
Message brief(Message message);
// The proposal or decision for members of `base`. Itself, if it is not made of `base` as they would
// make it.
Message by_difference(const Message& whole, const WorldView& base);
// The view and the reports in full; false: `base` is not what it refers to. A message that is whole
// stays as it is.
bool spell_out(Message& message, const WorldView& base);

}  // namespace holdfast::ft
