// Lane world: the two ends of a trunk, the connections between them, and what happens to these. The
// ends are links of production; who calls whom, and when, is as in a runtime.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "base/fnv.h"
#include "comm/transport/trunk/trunk_link.h"
#include "sim/lanes/lane_ledger.h"
#include "sim/lanes/lane_simulation.h"
#include "sim/lanes/sim_stream.h"

namespace holdfast::sim {

class LaneWorld final : public StreamKeeper {
 public:
  LaneWorld(const LaneScenario& scenario, bool with_log);

  LaneVerdict run();

  Instant now() const override { return now_; }
  const Outages& outages() const override { return outages_; }
  Random& random() override { return random_; }
  void wake(int end, Instant at) override;
  void on_closed(int end, int connection) override {
    log(end, "ends connection " + std::to_string(connection));
  }

 private:
  enum class CallState : std::uint8_t { kCalls, kAnswered, kOver };
  // A connection that is being made.
  struct LaneCall {
    std::shared_ptr<SimConnection> connection;
    int from = 0;
    std::uint64_t trunk = 0;
    bool joins = false;
    Instant deadline;
    CallState state = CallState::kCalls;
    bool welcome = false;  // what the answer says
  };
  enum class LaneStep : std::uint8_t {
    kLook,
    kFault,
    kHello,
    kWelcome,
    kGivesUp,
    kSend,
    kPost,
    kDirect,
    kEnding,
    kCloses,
    kToldGone
  };
  struct LaneEvent {
    Instant at;
    std::uint64_t order = 0;
    LaneStep what = LaneStep::kLook;
    std::size_t place = 0;  // an end, a fault, a call
    bool operator>(const LaneEvent& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct LaneEnd {
    std::unique_ptr<comm::TrunkLink> link;
    std::uint64_t trunk = 0;
    Instant scheduled = kNever;
    Instant next_look;
    Instant next_lane;
    Instant next_relay;
    Instant next_beat;
    Instant refused_until;
    bool severed = false;  // it has given its trunk up, and may have another one
    bool leaves = false;   // it has said goodbye
    bool told = false;     // it is to be told that the other one has gone
    bool closed = false;   // it has closed the trunk, for good
  };

  LaneEnd& end_at(int end) { return ends_.at(static_cast<std::size_t>(end)); }
  void schedule(Instant at, LaneStep what, std::size_t place);
  void log(int end, const std::string& text);
  std::shared_ptr<SimConnection> connect(bool relayed);
  void found();
  void plan();
  void take(const LaneEvent& event);

  // lane_world.cpp
  void step(int end);
  void look_at_connections(int end);
  void tend(int end);
  void check(int end);
  void send(int end);
  void post(int end);
  bool is_over();
  Duration bound() const;

  // lane_meeting.cpp
  void call(int from, bool joins, bool relayed);
  void call_anew();
  void call_directly();
  void on_hello(std::size_t place);
  void on_welcome(std::size_t place);
  void give_up(std::size_t place);
  Instant passage(int from, const SimConnection& connection, Duration patience) const;
  std::size_t calls_of(int end, bool relayed) const;
  void renew(int end, std::uint64_t trunk, const std::shared_ptr<SimConnection>& connection);

  // lane_faults.cpp
  bool happen(const LaneFault& fault);
  void lose(int from, int connection, Instant until);
  std::shared_ptr<SimConnection> pick(const LaneFault& fault) const;
  bool stall(const LaneFault& fault);
  bool cut(const LaneFault& fault);
  bool expire(const LaneFault& fault);
  bool give_trunk_up(int end);
  void begin_ending();
  void close_when_said(Instant since);
  void close_trunk(int end, const char* why);

  const LaneScenario& scenario_;
  bool with_log_;
  Random random_;
  Outages outages_;
  Instant now_;
  std::uint64_t order_ = 0;
  std::priority_queue<LaneEvent, std::vector<LaneEvent>, std::greater<>> events_;
  std::vector<std::shared_ptr<SimConnection>> connections_;  // that are not over
  std::deque<LaneCall> calls_;
  LaneLedger ledger_;
  std::array<LaneEnd, 2> ends_;
  std::uint64_t last_trunk_ = 0;
  int last_connection_ = 0;
  Instant healed_;           // the last fault is over, and all is sent
  std::uint64_t bytes_ = 0;  // that the ends send
  Instant next_new_call_;
  Instant left_at_ = kNever;
  bool over_ = false;
  Fnv1a happenings_;
  LaneVerdict verdict_;
};

}  // namespace holdfast::sim
