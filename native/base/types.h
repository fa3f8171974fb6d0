// Strong types for the numbers that must not be mixed up: ranks, epochs, members, instants.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace holdfast {

template <class Tag, class Value>
struct Strong {
  Value value{};
  constexpr auto operator<=>(const Strong&) const = default;
};

// Number of a peer inside one communicator, 0 .. size-1.
using Rank = Strong<struct RankTag, std::int32_t>;
// Number of a view. Every message carries it; a message of another epoch is dropped.
using Epoch = Strong<struct EpochTag, std::uint32_t>;
// Identity of a process; survives re-ranking, differs between incarnations.
using MemberId = Strong<struct MemberIdTag, std::uint64_t>;
// Identity of a communicator, agreed by its members.
using CommId = Strong<struct CommIdTag, std::uint64_t>;
// Number of an op inside one communicator, in program order, from 0; collectives and messages are
// counted apart.
using OpSeq = Strong<struct OpSeqTag, std::uint64_t>;

using Duration = std::chrono::nanoseconds;
// For a wait that something else ends; small enough to be added to any time.
inline constexpr Duration kForever = std::chrono::hours(24 * 400);

// A point on some Clock's time line; only differences mean anything.
struct Instant {
  Duration since_origin{};
  constexpr auto operator<=>(const Instant&) const = default;
};
constexpr Instant operator+(Instant t, Duration d) { return {t.since_origin + d}; }
constexpr Duration operator-(Instant a, Instant b) { return a.since_origin - b.since_origin; }

}  // namespace holdfast
