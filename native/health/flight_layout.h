// Flight layout: where each part of a flight record lies. A record is words of eight bytes in the
// byte order of its host, which the first word shows. The writer and the reader of
// native/health/flight_recorder.h share these offsets.
//
//   header    512 words  magic, version and sizes, process, clocks, count of ops, host, callers
//   groups    512 words  64 x (id, name of at most 56 bytes); id 0: unused
//   entries    16 words each, entry of op n at (n - 1) % entries
#pragma once

#include <cstddef>
#include <cstdint>

#include "health/caller_names.h"
#include "health/flight_recorder.h"

namespace holdfast::health::flight {

inline constexpr std::uint64_t kMagic = 0x3154484746444c48;  // "HLDFGHT1", read as little endian
inline constexpr std::size_t kHeaderWords = 512;
inline constexpr std::size_t kGroupWords = 1 + kFlightNameBytes / 8;
inline constexpr std::size_t kGroupsWords = kFlightGroups * kGroupWords;
inline constexpr std::size_t kEntryWords = 16;
inline constexpr std::size_t kFrontWords = kHeaderWords + kGroupsWords;
// A file that claims more entries was not written by a recorder.
inline constexpr std::uint32_t kMaxEntries = 1U << 20;

// Word offsets in the header.
inline constexpr std::size_t kMagicAt = 0;
inline constexpr std::size_t kVersionAt = 1;  // version | entries << 32
inline constexpr std::size_t kProcessAt = 2;  // pid | rank << 32
inline constexpr std::size_t kMemberAt = 3;
inline constexpr std::size_t kWallAt = 4;  // wall offset, nanoseconds
inline constexpr std::size_t kOpsAt = 5;
inline constexpr std::size_t kHostAt = 8;
inline constexpr std::size_t kHostBytes = 256;
inline constexpr std::size_t kCallersAt = 64;  // names of 96 callers, of at most 32 bytes
inline constexpr std::size_t kCallerBytes = 32;
static_assert(kHostAt + kHostBytes / 8 <= kCallersAt);
static_assert(kCallersAt + kCallerNames * kCallerBytes / 8 <= kHeaderWords);

// Word offsets in an entry.
inline constexpr std::size_t kStamp = 0;
inline constexpr std::size_t kGroup = 1;
inline constexpr std::size_t kPlace = 2;  // sequence | caller << 56
inline constexpr int kCallerShift = 56;
inline constexpr std::uint64_t kSequenceMask = (std::uint64_t{1} << kCallerShift) - 1;
// Eight bytes: collective, dtype, op, path, state, code, repaired, count of waited
inline constexpr std::size_t kKind = 3;
inline constexpr std::size_t kBytes = 4;
inline constexpr std::size_t kEnqueued = 5;
inline constexpr std::size_t kStarted = 6;
inline constexpr std::size_t kEnded = 7;
inline constexpr std::size_t kAlgorithm = 8;  // three words of text
inline constexpr std::size_t kAlgorithmBytes = 24;
inline constexpr std::size_t kRanks = 11;   // rank | other << 16 | epoch << 32
inline constexpr std::size_t kWaited = 12;  // eight ranks of two bytes
inline constexpr std::size_t kNumber = 14;
inline constexpr std::size_t kStampAgain = 15;

inline constexpr std::uint64_t low_high(std::uint32_t low, std::uint32_t high) {
  return low | (std::uint64_t{high} << 32);
}
inline constexpr std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
inline constexpr std::uint32_t high(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}
inline constexpr std::uint8_t byte_of(std::uint64_t word, int index) {
  return static_cast<std::uint8_t>(word >> (8 * index));
}

}  // namespace holdfast::health::flight
