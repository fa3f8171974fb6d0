// The ways that a call may go: one row each. What chooses among them is the route (route.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "comm/observer.h"

namespace holdfast::comm {

enum class Way : std::uint8_t {
  kFlat,
  kSlices,
  kSchedule,
  kRepair,
  kDirect,
  kTwoLevel,
  kEncoded,
  kStaged,
};

struct WayRow {
  Way way{};
  std::string_view name;
  std::string_view about;
  OpPath path{};  // of an op that goes so, as observers have it
};

inline constexpr std::array kWays{
    WayRow{Way::kFlat, "flat", "each rank publishes its input in shared memory, all read it",
           OpPath::kFlat},
    WayRow{Way::kSlices, "slices", "slice by slice through shared memory, or read where it lies",
           OpPath::kSlices},
    WayRow{Way::kSchedule, "schedule", "an algorithm of the catalogue, message by message",
           OpPath::kSchedule},
    WayRow{Way::kRepair, "repair", "what a loss has left to do, message by message",
           OpPath::kRepair},
    WayRow{Way::kDirect, "direct", "devices of one host read each other's memory", OpPath::kDirect},
    WayRow{Way::kTwoLevel, "levels",
           "devices read each other inside hosts, which exchange the rest", OpPath::kTwoLevel},
    WayRow{Way::kEncoded, "coded", "devices encode and decode, and hosts exchange the frames",
           OpPath::kEncoded},
    // Its slices are ops of the host, each with a way of its own.
    WayRow{Way::kStaged, "staged", "through pinned memory of the host, slice by slice",
           OpPath::kNone},
};

constexpr const WayRow& row_of(Way way) { return kWays[static_cast<std::size_t>(way)]; }

}  // namespace holdfast::comm
