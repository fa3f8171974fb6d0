// Yield point: a place between two looks at memory that other processes write to, where one of them
// may run in between. The simulator of a test build runs another process there; in other builds it
// does nothing.
#pragma once

#include <functional>
#include <utility>

namespace holdfast {

#ifdef HOLDFAST_PLANTED
inline constexpr bool kHasYieldPoints = true;
// One for each thread: simulations may run side by side.
inline thread_local std::function<void()> at_yield_point;
inline void at_yield_points(std::function<void()> run) { at_yield_point = std::move(run); }
inline void yield_point() {
  if (at_yield_point) at_yield_point();
}
#else
inline constexpr bool kHasYieldPoints = false;
inline void at_yield_points(const std::function<void()>&) {}
constexpr void yield_point() {}
#endif

}  // namespace holdfast
