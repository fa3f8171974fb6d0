// State metrics: what a rank's snapshots report: which of them are safe, what they cost, and
// whether a loss would cost more. Reports come a few times per snapshot, so a mutex is cheap
// enough.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/metrics/text.h"
#include "base/types.h"

namespace holdfast::health {

class JsonWriter;

// Of a reason, in a label, a heartbeat and a page.
inline constexpr std::size_t kMostReason = 160;

// What a rank's heartbeat tells of its state.
struct StateSummary {
  bool known = false;           // the rank takes snapshots
  std::int64_t step = -1;       // of the newest that is committed; negative: none
  std::int64_t age_ms = 0;      // of that
  std::int64_t exposed_ms = 0;  // for how long the state has been unprotected
  std::string why;              // empty: it is protected
  friend bool operator==(const StateSummary&, const StateSummary&) = default;
};

void encode_state(Writer& w, const StateSummary& state);
// False for anything that encode_state() does not make.
bool parse_state(Reader& r, StateSummary& state);
// Fields of a rank on the page /status; `since`: how long ago the summary came.
void write_state(const StateSummary& state, Duration since, JsonWriter& out);

// Every method is for any thread.
class StateMetrics {
 public:
  // How far a snapshot has got.
  enum class Reached : std::uint8_t { kCommitted, kFlushed };

  struct StateCounts {
    double stalled = 0;          // seconds
    std::uint64_t captured = 0;  // bytes
    std::uint64_t sent = 0;      // bytes
    std::uint64_t flushed = 0;   // bytes
    std::uint64_t damaged = 0;   // tiles
  };
  void add(const StateCounts& counts);
  // Counts a restore; `source` as in the table of metrics.
  void add_restore(std::string_view source);
  void reach(Reached what, std::int64_t step, Instant taken);
  // Empty: the state is protected.
  void set_exposed(std::string_view why, Instant since);
  // No snapshots are taken any more: counters stay.
  void end();

  void write(metrics::TextEncoder& out, Instant now) const;
  StateSummary summary(Instant now) const;

 private:
  struct Newest {
    std::int64_t step = -1;
    Instant taken;
  };
  mutable std::mutex mutex_;  // guards what follows
  StateCounts counts_;
  std::map<std::string, std::uint64_t, std::less<>> restores_;  // by source
  std::array<Newest, 2> newest_;                                // by Reached
  bool known_ = false;
  std::string why_;
  Instant exposed_since_;
};

}  // namespace holdfast::health
