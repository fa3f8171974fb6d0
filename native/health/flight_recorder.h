// Flight recorder: the last ops of a process in a ring of fixed size, in memory that may be a
// mapped file, so that it can be read after the process was killed. The idea is PyTorch's Flight
// Recorder; the format is our own, and docs/reference/flight-record.md describes it.
//
// The writer is the thread that holds the runtime; it never waits and allocates nothing. Every
// entry carries a stamp at its front and at its end, odd while it is being written (a sequence
// lock, Boehm 2012): a reader can tell that the entry is changing, or that its writer died in the
// middle.
// Why: docs/decisions/0050-the-flight-record-is-a-mapped-file.md
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "comm/observer.h"

namespace holdfast::health {

inline constexpr std::uint32_t kFlightVersion = 3;
inline constexpr std::uint32_t kFlightEntries = 4096;
inline constexpr std::size_t kFlightWaited = 8;      // peers that an entry has room for
inline constexpr std::size_t kFlightGroups = 64;     // only the first groups' names are kept
inline constexpr std::size_t kFlightNameBytes = 56;  // a longer name is cut

enum class OpState : std::uint8_t { kStarted = 1, kEnded = 2 };

struct FlightEntry {
  std::uint64_t number = 0;  // of the op in this process, from 1
  CommId group;
  OpSeq sequence;
  Epoch epoch;
  comm::Collective collective{};
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  comm::OpPath path = comm::OpPath::kNone;
  OpState state = OpState::kStarted;
  Code code = Code::kOk;
  bool repaired = false;
  std::uint64_t bytes = 0;
  Instant enqueued{};
  Instant started{};
  Instant ended{};  // zero: it has not ended
  std::string algorithm;
  std::string caller;        // the call of the program; empty: it is the op itself
  Rank rank;                 // in the group
  Rank other;                // the root, or the peer of a message
  std::vector<Rank> waited;  // world ranks that the op waited for when last polled
};

struct FlightLog {
  std::uint32_t pid = 0;
  MemberId member;
  Rank rank{-1};  // in the world
  std::string host;
  Duration wall_offset{};  // wall-clock time of an instant of this process's monotonic clock
  std::uint64_t ops = 0;   // ops begun so far
  std::vector<std::pair<CommId, std::string>> groups;
  std::vector<FlightEntry> entries;  // by number, rising
  std::uint32_t torn = 0;            // entries that were being written
  std::uint32_t damaged = 0;         // entries with values that no writer writes
  bool truncated = false;            // the end of the file is missing
};

// Parses a recorder's memory, or a copy of it. kProtocolError when the bytes are no flight record,
// or one of another version; a part that is missing or damaged is counted, and the rest is read.
Result<FlightLog> read_flight(std::span<const std::byte> bytes);

struct FlightSettings {
  std::string folder;  // where the file is made; empty: memory of this process only
  std::string host;
  MemberId member;
  std::uint32_t entries = kFlightEntries;
  Duration wall_offset{};
};

class FlightRecorder {
 public:
  // kSystem when the file cannot be made, or the disk has no room for all of it.
  static Result<std::unique_ptr<FlightRecorder>> create(const FlightSettings& settings);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Thread that holds the runtime, up to name_group(). Returns the op's number.
  std::uint64_t begin(const comm::Observer::ObservedOp& op, const comm::OpTicket& ticket);
  // A change to an op whose entry has been reused since is dropped.
  void set_path(const comm::OpTicket& ticket, Epoch epoch);
  void set_waited(std::uint64_t number, std::span<const Rank> peers);
  void end(std::uint64_t number, Code code, bool repaired, Instant now);
  void set_rank(Rank world_rank);
  void name_group(CommId id, const std::string& name);
  // `number`: from 1 on, as in tickets.
  void name_caller(std::uint8_t number, const char* name);

  // Any thread. A copy of the record, for read_flight().
  std::vector<std::byte> snapshot() const;
  // Path of the file; empty when there is none.
  const std::string& path() const { return path_; }

 private:
  using Word = std::atomic<std::uint64_t>;
  struct Entry;
  FlightRecorder(std::string path, std::byte* memory, std::size_t bytes, std::uint32_t entries);
  void write_header(const FlightSettings& settings);
  Entry* entry(std::uint64_t number) const;
  Word* words() const { return reinterpret_cast<Word*>(memory_); }

  std::string path_;
  std::byte* memory_;
  std::size_t bytes_;
  std::uint32_t entries_;
  std::uint64_t last_ = 0;
  std::uint32_t groups_ = 0;
};

}  // namespace holdfast::health
