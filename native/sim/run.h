// One run of the simulation: its processes, the frames on their way between them, and the next
// events.
#pragma once

#include <algorithm>
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
#include "sim/leased_record.h"
#include "sim/process.h"
#include "sim/sim_notary.h"
#include "sim/simulation.h"
#include "sim/weather.h"

namespace holdfast::sim {

struct SimEvent {
  Instant at;
  std::uint64_t order = 0;
  int process = -1;  // this process steps; or
  int fault = -1;    // this fault happens; or
  enum class Other : std::uint8_t { kNone, kEnds, kCoordinator, kMoved, kRelink, kRedial };
  Other what = Other::kNone;
  int peer = -1;  // the peer of `process` that is linked to it again
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
    return weather_.arrival(std::max(now_, host(from).busy_until), rank_of(from), rank_of(to),
                            random_);
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
  void join(int from, MemberId to) override;
  void log(int process, const std::string& text) override;
  Ledger& ledger() override { return ledger_; }
  ft::Notary* notary() override { return scenario_.signs ? &notary_ : nullptr; }
  void on_view(int process, CommId world, const ft::WorldView& view) override;
  void on_op(int process, int op, bool ended) override;
  std::optional<int> step_of(const comm::View& view) const override;
  void on_boundary(int process, Epoch epoch, int next_step) override;
  void on_told(int process) override;
  void on_saved(int process, int next_step) override;
  group::OwnArea make_area(int process) override;
  std::optional<comm::HostPeer> open_area(int process, const std::string& name) override;

 private:
  struct Host {
    std::shared_ptr<Process> process;
    bool alive = true;
    bool vanished = false;  // ended with its kernel, which refuses no calls
    Instant paused_until{};
    Instant busy_until{};  // waits for the record's store; what it says afterwards leaves then
    Duration drift{};      // percent
    Instant scheduled{Duration::max()};
    Duration suspension{};    // of the pause still to come; zero: none
    std::uint64_t looks = 0;  // looks at memory until it begins
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
  bool refuse_living(int a, int b, Duration lasts);
  void bear_witness(int process);
  bool bear_false_witness(int a, int b);
  bool share_host(int a, int b) const { return host(a).process->host() == host(b).process->host(); }
  void look_for_the_buried(int process, CommId world, const ft::WorldView& view);
  ft::Record* record_of(std::uint64_t term);
  StoreMood ask_store();
  void mark(int what, std::uint64_t value) {
    happenings_.mix(static_cast<std::uint64_t>(what) << 56 ^ value);
  }
  void look_at_statement(const ft::Message& message);
  void look_at_data(int from, const comm::FrameHeader& header);
  // Tells the faults that wait for it what has happened.
  void notice(When when, int process, int what);
  void fire(std::size_t fault);
  // Returns whether the fault changes anything.
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
  bool order(const Fault& order, int member);
  bool let_in_stranger(std::uint64_t seed);
  MemberId pick_liar(std::uint64_t seed, const ft::WorldView& view);
  void restart(int rank);
  void let_in(int number, const std::shared_ptr<Process>& process);
  // Starts a coordinator outside the view, for the first time or again.
  void start_coordinator();
  void take(const SimEvent& event);
  void step(int process);
  // Called when the running process is at a yield point.
  void suspend();
  bool may_run_meanwhile(const SimEvent& event) const;
  void look_at_wires(int process);
  bool is_over();
  void judge(RunVerdict& verdict);
  std::vector<int> survivors() const;
  // Whether the wires between the two work, both ways.
  bool hears(int a, int b) const;
  bool is_proven(int process, const std::vector<int>& here) const;
  bool may_tell(int other, int process) const;
  // Whether one of the two has closed its end of their last connection.
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
  std::vector<int> holders_;          // by rank: the process that has the rank, or wants it
  int coordinator_ = -1;              // the process that coordinates, if one is outside the view
  SharedStore store_;                 // the coordinators', in every other world
  std::deque<LeasedRecord> records_;  // by coordinator
  Random store_random_{scenario_.seed * 2 + scenario_.delays + 0x5709};
  std::map<std::pair<int, int>, std::vector<std::shared_ptr<Wire>>> wires_;  // by direction
  std::vector<std::vector<const Wire*>> incoming_;  // by process: those of wires_ that end there
  std::set<std::pair<int, int>> connecting_;
  // Calls to processes that have ended, and are refused; and what witnesses say unasked.
  struct Refusal {
    int from;
    MemberId to;
    Instant at;
    using Word = Process::Word;
    Word word;
  };
  std::vector<Refusal> refusals_;
  std::set<std::pair<int, MemberId>> told_;  // by a witness: whom, and of whose end
  std::map<std::pair<CommId, std::uint32_t>, ft::WorldView> views_;  // by world and epoch
  Weather weather_;
  std::vector<int> waiting_;    // by fault: triggers still to come; 0: it was triggered
  std::vector<bool> happened_;  // by fault: whether it changed something
  bool gave_up_ = false;        // processes that have not ended by now are excused
  Instant healed_{};            // when the last fault that has happened is over
  // An area of memory. Owners: this and the groups that have mapped it.
  struct Area {
    int owner = -1;
    std::shared_ptr<comm::Segment> segment;
    std::shared_ptr<comm::AreaRoom> room = nullptr;  // owners: this and the owner's groups
  };
  std::vector<Area> areas_;             // by number, which is the name; founders' first, by rank
  std::shared_ptr<Pool> pool_;          // owners: this and its areas
  std::deque<comm::BellWords> bells_;   // by process
  std::map<std::uint32_t, int> steps_;  // by epoch
  int saved_ = 0;                       // the step that would be next if the job were started again
  Fnv1a happenings_;
  Ledger ledger_;
  SimNotary notary_;
  std::vector<ft::Message> shown_;  // signed views, as somebody was told them
  std::vector<std::string> log_;
};

}  // namespace holdfast::sim
