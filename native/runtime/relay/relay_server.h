// Relay server: a relay core with sockets, on a thread of its own. A relay that is a process
// listens itself; at a coordinator the doorman hands over who speaks the relay's protocol.
//
// Why: docs/decisions/0169-who-cannot-be-called-calls.md
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/audit_log.h"
#include "runtime/relay/relay_core.h"
#include "runtime/relay/relay_knocks.h"
#include "runtime/relay/spliced_pair.h"

namespace holdfast::runtime {

class RelayServer {
 public:
  struct RelayRules {
    RelayGate gate;
    RelayLimits limits;
    int listener = -1;                          // it outlives the server; -1: none
    std::shared_ptr<AuditLog> audit = nullptr;  // null: none is kept
  };
  struct RelayCounts {
    RelayCore::LineCounts lines;
    std::uint64_t passed = 0;  // bytes, of all pairs
    health::RelayNumbers numbers() const;
  };

  static Result<std::unique_ptr<RelayServer>> start(RelayRules rules);
  ~RelayServer();
  RelayServer(const RelayServer&) = delete;
  RelayServer& operator=(const RelayServer&) = delete;

  // Takes a connection whose first bytes, not read yet, are the relay's. Any thread.
  void adopt(int fd);
  // Any thread.
  RelayCounts counts() const;
  // Ends the thread, and all connections. Any thread.
  void stop();

 private:
  using Line = RelayCore::Line;
  struct OpenLine {
    int fd = -1;
    std::vector<std::byte> out;
    bool leaves = false;  // when `out` is sent, at the latest by `until`
    Instant until{};
    std::shared_ptr<SplicedPair> pair;  // owners: its two lines. Null: not joined
    Line other = 0;
    bool queued = false;
    // Of a pair's first line: what the two had said, and until when that may be all.
    std::uint64_t passed = 0;
    Instant idle_until{};
  };

  RelayServer(RelayRules rules, int epoll, int interrupt);
  void work();
  bool take_events(int timeout_ms);
  void accept_all(Instant now);
  void admit(int fd, Instant now);
  void look_at(Line line, std::uint32_t events, Instant now);
  void listen_to(Line line, Instant now);
  void serve_pairs();
  void carry_out_acts(Instant now);
  void send(Line line, const std::vector<std::byte>& bytes);
  void flush(Line line);
  void join(Line caller, Line callee);
  void begin_to_leave(Line line, Instant now);
  void close_line(Line line);
  void look_at_time(Instant now);
  void end_idle_pairs(Instant now);
  void publish();

  const RelayRules rules_;
  const int epoll_;
  const int interrupt_;
  MonotonicClock clock_;

  // Of the server's thread.
  RelayCore core_;
  Line last_ = 0;
  std::map<Line, OpenLine> lines_;
  RelayKnocks knocks_;
  std::deque<Line> ready_;  // pairs that can move, by their callers, in turn
  std::vector<std::byte> scratch_;
  Instant next_tick_{};
  std::optional<Instant> rests_until_;  // the listener is not watched
  std::uint64_t passed_before_ = 0;     // of pairs that have ended

  std::atomic<bool> stops_{false};
  mutable std::mutex mutex_;  // guards the rest
  std::vector<int> adopted_;
  RelayCounts counts_;
  std::mutex stopping_;  // held while the thread is joined
  std::thread thread_;
};

}  // namespace holdfast::runtime
