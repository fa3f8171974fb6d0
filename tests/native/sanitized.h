// Whether a sanitizer runs the test. It looks for other mistakes than wrong values and takes ten
// times as long, so that long sweeps do a part of their cases there, on the same paths.
#pragma once

namespace holdfast::testing {

inline constexpr bool kSanitized = HOLDFAST_SANITIZED;

}  // namespace holdfast::testing
