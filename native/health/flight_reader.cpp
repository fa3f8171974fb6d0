// The reader of flight records. It is pure and total, because a record may be cut off, torn or
// damaged.
#include <algorithm>
#include <cstring>

#include "health/flight_layout.h"
#include "health/flight_recorder.h"

namespace holdfast::health {
namespace {

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t index) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + index * 8, 8);
  return word;
}

// Text up to the first zero, or `most` bytes; bytes that are neither printable ASCII nor UTF-8
// become question marks.
std::string text_at(std::span<const std::byte> bytes, std::size_t index, std::size_t most) {
  std::string text(reinterpret_cast<const char*>(bytes.data()) + index * 8, most);
  text.resize(std::min(text.size(), text.find('\0')));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

Instant instant(std::uint64_t word) { return {Duration(static_cast<std::int64_t>(word))}; }

Rank rank(std::uint32_t word) { return {static_cast<std::int32_t>(word)}; }

// A rank takes two bytes, enough for ft::kMaxRanks.
Rank rank_in_group(std::uint64_t word) { return {static_cast<std::int16_t>(word)}; }

enum class Found { kWhole, kUnused, kTorn, kDamaged };

// Reads the entry whose words begin at `at`, in place `index` of `entries`.
Found read_entry(std::span<const std::byte> bytes, std::size_t at, std::uint32_t index,
                 std::uint32_t entries, FlightEntry& entry) {
  const auto word = [&](std::size_t i) { return word_at(bytes, at + i); };
  const std::uint64_t stamp = word(flight::kStamp);
  const std::uint64_t again = word(flight::kStampAgain);
  if (stamp == 0 && again == 0)
    return word(flight::kNumber) == 0 ? Found::kUnused : Found::kDamaged;
  if (stamp != again || stamp % 2 != 0) return Found::kTorn;
  const std::uint64_t kind = word(flight::kKind);
  const auto part = [kind](int i) { return flight::byte_of(kind, i); };
  entry.number = word(flight::kNumber);
  const bool sound = entry.number > 0 && (entry.number - 1) % entries == index &&
                     part(0) < comm::kCollectiveCount && part(1) < kDTypeCount &&
                     part(2) < kReduceOpCount && part(3) < comm::kOpPathCount &&
                     (part(4) == static_cast<int>(OpState::kStarted) ||
                      part(4) == static_cast<int>(OpState::kEnded)) &&
                     part(5) < kCodeCount && part(6) <= 1 && part(7) <= kFlightWaited;
  if (!sound) return Found::kDamaged;
  entry.group = {word(flight::kGroup)};
  entry.sequence = {word(flight::kPlace) & flight::kSequenceMask};
  const std::size_t caller = word(flight::kPlace) >> flight::kCallerShift;
  if (caller > kCallerNames) return Found::kDamaged;
  if (caller > 0) {
    const std::size_t name = flight::kCallersAt + (caller - 1) * (flight::kCallerBytes / 8);
    entry.caller = text_at(bytes, name, flight::kCallerBytes);
  }
  entry.collective = static_cast<comm::Collective>(part(0));
  entry.dtype = static_cast<DType>(part(1));
  entry.op = static_cast<ReduceOp>(part(2));
  entry.path = static_cast<comm::OpPath>(part(3));
  entry.state = static_cast<OpState>(part(4));
  entry.code = static_cast<Code>(part(5));
  entry.repaired = part(6) == 1;
  entry.bytes = word(flight::kBytes);
  entry.enqueued = instant(word(flight::kEnqueued));
  entry.started = instant(word(flight::kStarted));
  entry.ended = instant(word(flight::kEnded));
  entry.algorithm = text_at(bytes, at + flight::kAlgorithm, flight::kAlgorithmBytes);
  const std::uint64_t ranks = word(flight::kRanks);
  entry.rank = rank_in_group(ranks);
  entry.other = rank_in_group(ranks >> 16);
  entry.epoch = {flight::high(ranks)};
  for (std::size_t i = 0; i < part(7); ++i) {
    const std::uint64_t four = word(flight::kWaited + i / 4);
    entry.waited.push_back({static_cast<std::uint16_t>(four >> (16 * (i % 4)))});
  }
  return Found::kWhole;
}

Result<FlightLog> read_header(std::span<const std::byte> bytes, std::uint32_t& entries) {
  const auto refuse = [](const std::string& why) {
    return Status{Code::kProtocolError, "no flight record: " + why};
  };
  if (bytes.size() < flight::kHeaderWords * 8) {
    return refuse("it has " + std::to_string(bytes.size()) + " bytes, its header alone has " +
                  std::to_string(flight::kHeaderWords * 8));
  }
  if (word_at(bytes, flight::kMagicAt) != flight::kMagic) {
    return refuse("it does not begin with HLDFGHT1");
  }
  const std::uint64_t version = word_at(bytes, flight::kVersionAt);
  if (flight::low(version) != kFlightVersion) {
    return refuse("version " + std::to_string(flight::low(version)) + ", this is version " +
                  std::to_string(kFlightVersion));
  }
  entries = flight::high(version);
  if (entries == 0 || entries > flight::kMaxEntries) {
    return refuse("a ring of " + std::to_string(entries) + " entries");
  }
  FlightLog log;
  log.pid = flight::low(word_at(bytes, flight::kProcessAt));
  log.rank = rank(flight::high(word_at(bytes, flight::kProcessAt)));
  log.member = {word_at(bytes, flight::kMemberAt)};
  log.wall_offset = instant(word_at(bytes, flight::kWallAt)).since_origin;
  log.ops = word_at(bytes, flight::kOpsAt);
  log.host = text_at(bytes, flight::kHostAt, flight::kHostBytes);
  return log;
}

}  // namespace

Result<FlightLog> read_flight(std::span<const std::byte> bytes) {
  std::uint32_t entries = 0;
  auto read = read_header(bytes, entries);
  if (!read.is_ok()) return read;
  FlightLog& log = read.value();
  for (std::size_t g = 0; g < kFlightGroups; ++g) {
    const std::size_t at = flight::kHeaderWords + g * flight::kGroupWords;
    if ((at + flight::kGroupWords) * 8 > bytes.size()) break;
    const std::uint64_t id = word_at(bytes, at);
    if (id != 0) log.groups.emplace_back(CommId{id}, text_at(bytes, at + 1, kFlightNameBytes));
  }
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t at = flight::kFrontWords + i * flight::kEntryWords;
    if ((at + flight::kEntryWords) * 8 > bytes.size()) {
      log.truncated = true;
      break;
    }
    FlightEntry entry;
    const Found found = read_entry(bytes, at, i, entries, entry);
    if (found == Found::kWhole) log.entries.push_back(std::move(entry));
    log.torn += found == Found::kTorn ? 1 : 0;
    log.damaged += found == Found::kDamaged ? 1 : 0;
  }
  std::sort(log.entries.begin(), log.entries.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return read;
}

}  // namespace holdfast::health
