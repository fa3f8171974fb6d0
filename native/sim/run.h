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

#include "sim/process.h"
#include "sim/simulation.h"
#include "sim/weather.h"

namespace holdfast::sim {

struct Event {
  Instant at;
  std::uint64_t order = 0;
  int process = -1;  // steps; or
  int fault = -1;    // happens; or
  enum class Other : std::uint8_t { kNone, kEnds, kCoordinator } what = Other::kNone;
  bool operator>(const Event& other) const {
    return std::tie(at, order) > std::tie(other.at, other.order);
  }
};

class Simulation final : public WireKeeper, public Surroundings {
 public:
  Simulation(const Scenario& scenario, bool with_log)
      : scenario_(scenario), with_log_(with_log), random_(scenario.seed * 2) {}

  Verdict run();

  // WireKeeper.
  Instant now() const override { return now_; }
  Instant arrival(int from, int to) override {
    return weather_.arrival(now_, rank_of(from), rank_of(to), random_);
  }
  bool damages(int from, int to) override { return weather_.damages(rank_of(from), rank_of(to)); }
  int copies(int from, int to, const comm::OutFrame& frame) override;
  void wake(int process, Instant at) override;
  Random& random() override { return random_; }
  // Surroundings.
  Instant local_time(int process) const override;
  void connect(int from, MemberId to) override;
  void log(int process, const std::string& text) override;
  Ledger& ledger() override { return ledger_; }
  void on_view(int process, CommId world, const ft::WorldView& view) override {
    ledger_.on_view(process, world, view);
  }
  std::optional<int> step_of(Epoch epoch) const override;
  void on_boundary(int process, Epoch epoch, int next_step) override;
  ft::OwnArea make_area(int process) override;
  std::optional<comm::HostPeer> open_area(int process, const std::string& name) override;

 private:
  struct Host {
    std::shared_ptr<Process> process;
    bool alive = true;
    Instant paused_until{};
    Duration drift{};  // percent
    Instant scheduled{Duration::max()};
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
  void happen(const Fault& fault);
  void crash(int process);
  void restart(int rank);
  // A coordinator outside the view begins, for the first time or again.
  void start_coordinator();
  void step(int process);
  void look_at_wires(int process);
  bool is_over();
  void judge(Verdict& verdict);

  Scenario scenario_;
  bool with_log_;
  Random random_;
  Instant now_{};
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Host> hosts_;
  std::vector<int> holders_;  // by rank: the process that has it, or wants it
  int coordinator_ = -1;      // its process, if it is outside the view
  std::map<std::pair<int, int>, std::vector<std::shared_ptr<Wire>>> wires_;  // by direction
  std::set<std::pair<int, int>> connecting_;
  Weather weather_;
  // Owners: this and the groups that have mapped them.
  struct Area {
    int owner = -1;
    std::shared_ptr<comm::Segment> segment;
  };
  std::vector<Area> areas_;             // by number: their names; the founders' by rank
  std::shared_ptr<Pool> pool_;          // owners: this and its areas
  std::deque<comm::BellWords> bells_;   // by process
  std::map<std::uint32_t, int> steps_;  // by epoch
  Ledger ledger_;
  std::vector<std::string> log_;
};

}  // namespace holdfast::sim
