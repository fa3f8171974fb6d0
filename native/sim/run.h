// One run of the simulation: its processes, what is on its way between them, and what happens next.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fnv.h"
#include "sim/memory_record.h"
#include "sim/process.h"
#include "sim/simulation.h"
#include "sim/weather.h"

namespace holdfast::sim {

struct SimEvent {
  Instant at;
  std::uint64_t order = 0;
  int process = -1;  // steps; or
  int fault = -1;    // happens; or
  enum class Other : std::uint8_t { kNone, kEnds, kCoordinator, kMoved, kRelink, kRedial };
  Other what = Other::kNone;
  int peer = -1;  // of process, to be linked to it again
  bool operator>(const SimEvent& other) const {
    return std::tie(at, order) > std::tie(other.at, other.order);
  }
};

class Simulation final : public WireKeeper, public Surroundings {
 public:
  Simulation(const Scenario& scenario, bool with_log)
      : scenario_(scenario),
        with_log_(with_log),
        random_(scenario.seed * 2 + scenario.delays * 1'000'003) {}

  RunVerdict run();

  // WireKeeper.
  Instant now() const override { return now_; }
  Instant arrival(int from, int to) override {
    return weather_.arrival(now_, rank_of(from), rank_of(to), random_);
  }
  bool damages(int from, int to) override { return weather_.damages(rank_of(from), rank_of(to)); }
  int copies(int from, int to, const comm::OutFrame& frame) override;
  Duration lateness(int from, int to, const comm::OutFrame& frame) override;
  void wake(int process, Instant at) override;
  Random& random() override { return random_; }
  // Surroundings.
  Instant local_time(int process) const override;
  void connect(int from, MemberId to) override;
  void mend(int from, MemberId to) override;
  void log(int process, const std::string& text) override;
  Ledger& ledger() override { return ledger_; }
  void on_view(int process, CommId world, const ft::WorldView& view) override;
  void on_op(int process, int op, bool ended) override;
  std::optional<int> step_of(const comm::View& view) const override;
  void on_boundary(int process, Epoch epoch, int next_step) override;
  void on_saved(int process, int next_step) override;
  ft::OwnArea make_area(int process) override;
  std::optional<comm::HostPeer> open_area(int process, const std::string& name) override;

 private:
  struct Host {
    std::shared_ptr<Process> process;
    bool alive = true;
    bool vanished = false;  // with its kernel, which refuses nothing
    Instant paused_until{};
    Duration drift{};  // percent
    Instant scheduled{Duration::max()};
    Duration suspension{};    // that is still to come
    std::uint64_t looks = 0;  // until then
  };

  void found_all();
  class Reach;
  class Pool;
  std::vector<comm::HostPeer> flat_of(int process);
  comm::HostPeer area_of(int owner, const std::shared_ptr<comm::Segment>& area, int user);
  comm::BellWords& bell(int process);
  Host& host(int process) { return hosts_[static_cast<std::size_t>(process)]; }
  const Host& host(int process) const { return hosts_[static_cast<std::size_t>(process)]; }
  int rank_of(int process) const { return host(process).process->rank().value; }
  int holder(int rank) const { return holders_[static_cast<std::size_t>(rank)]; }
  void link(int a, int b);
  void relink(int a, int b);
  void refuse(int from, int to);
  bool has_record() const { return scenario_.seed % 2 == 0; }
  void mark(int what, std::uint64_t value) {
    happenings_.mix(static_cast<std::uint64_t>(what) << 56 ^ value);
  }
  void look_at_data(int from, const comm::FrameHeader& header);
  // Something has happened that faults may wait for.
  void notice(When when, int process, int what);
  void fire(std::size_t fault);
  // Whether it changes anything.
  bool happen(const Fault& fault);
  void happen(std::size_t fault);
  bool crash(int process);
  bool vanish(int process);
  bool cut(int a, int b, bool as_if_dead, Duration lasts);
  bool reset(const Fault& fault, int a, int b);
  bool cut_off(int process, Duration lasts);
  bool close_own(int process, int peer, bool data);
  bool move_coordinator(std::uint64_t mask, Duration lasts);
  void end_first_coordinator(int first);
  bool grow();
  void restart(int rank);
  void let_in(int number, const std::shared_ptr<Process>& process);
  // A coordinator outside the view begins, for the first time or again.
  void start_coordinator();
  void take(const SimEvent& event);
  void step(int process);
  // The process that runs is at a yield point.
  void suspend();
  bool may_run_meanwhile(const SimEvent& event) const;
  void look_at_wires(int process);
  bool is_over();
  void judge(RunVerdict& verdict);
  std::vector<int> survivors() const;
  // Whether the wires between them work, both ways.
  bool hears(int a, int b) const;
  // Whether one of them has closed its end of the connection that they had last.
  bool is_closed(int a, int b) const;
  std::vector<int> who_must_end() const;
  std::vector<int> who_agree(const ft::WorldView& view) const;
  ft::WorldView newest_view(bool second = false) const;
  void look_for_late();
  Instant deadline() const;

  Scenario scenario_;
  bool with_log_;
  Random random_;
  Instant now_{};
  int running_ = -1;  // the process whose step this is
  std::uint64_t order_ = 0;
  std::priority_queue<SimEvent, std::vector<SimEvent>, std::greater<>> events_;
  std::vector<Host> hosts_;
  std::vector<int> holders_;  // by rank: the process that has it, or wants it
  int coordinator_ = -1;      // its process, if it is outside the view
  MemoryRecord record_;       // of the coordinator, in every other world
  std::map<std::pair<int, int>, std::vector<std::shared_ptr<Wire>>> wires_;  // by direction
  std::vector<std::vector<const Wire*>> incoming_;  // by process: those of wires_ that end there
  std::set<std::pair<int, int>> connecting_;
  // Calls to processes that have ended, which their kernels refuse.
  struct Refusal {
    int from;
    MemberId to;
    Instant at;
  };
  std::vector<Refusal> refusals_;
  Weather weather_;
  std::vector<int> waiting_;    // for each fault: how often it must still be triggered; 0: it was
  std::vector<bool> happened_;  // likewise, and it changed something
  bool gave_up_ = false;        // whoever has not ended by now is excused
  Instant healed_{};            // the last fault that has happened is over
  // Owners: this and the groups that have mapped them.
  struct Area {
    int owner = -1;
    std::shared_ptr<comm::Segment> segment;
  };
  std::vector<Area> areas_;             // by number: their names; the founders' by rank
  std::shared_ptr<Pool> pool_;          // owners: this and its areas
  std::deque<comm::BellWords> bells_;   // by process
  std::map<std::uint32_t, int> steps_;  // by epoch
  int saved_ = 0;                       // the step that would be next if the job were started again
  Fnv1a happenings_;
  Ledger ledger_;
  std::vector<std::string> log_;
};

}  // namespace holdfast::sim
