// State world: a job of trainers that take snapshots, their keepers, hosts and disks, in virtual
// time. What a keeper decides is Generations', what all go on from choose_snapshot's, the order of
// a flush FlushOrder's; the world carries it out, and the ledger judges.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "base/fnv.h"
#include "ft/snapshots/choice.h"
#include "ft/snapshots/flush_order.h"
#include "ft/snapshots/generations.h"
#include "sim/random.h"
#include "sim/state/keeper_group.h"
#include "sim/state/sim_disk.h"
#include "sim/state/state_ledger.h"
#include "sim/state/state_simulation.h"

namespace holdfast::sim {

class StateWorld {
 public:
  StateWorld(const StateScenario& scenario, bool with_log);
  StateVerdict run();

 private:
  using Action = std::function<void()>;
  struct StateEvent {
    Instant at;
    std::uint64_t number = 0;
    Action action;
    bool operator<(const StateEvent& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  struct SimHost {
    bool up = true;
    bool returns = true;
    SimDisk disk;
    std::uint32_t disk_incarnation = 0;
  };
  struct SimTrainer {
    bool alive = true;
    bool has_state = false;  // it has not begun anew since
    std::uint32_t incarnation = 0;
    std::uint64_t step = 0;  // the last that it has finished
    std::uint64_t taken = 0;
    bool taking = false;
    bool entered = false;  // it is in the next step
    Instant since;
  };
  struct SimFlush {
    ft::FlushOrder order;
    int slot = 0;
    std::uint32_t number = 0;
  };
  struct SimKeeper {
    bool alive = true;
    bool stopped = false;
    bool grouped = false;  // it has heard that the group has begun
    bool reads = false;    // for a restore
    std::uint32_t incarnation = 0;
    Instant lost_at;
    Instant resumed_at;
    std::size_t next_op = 0;
    std::optional<ft::Generations> machine;
    std::vector<SimPart> slots;
    std::vector<Action> inbox;  // while it is stopped
    std::optional<SimFlush> flush;
    std::optional<ft::SnapshotId> kept;  // the newest committed before it was last told something
  };
  struct RestoreRun {
    ft::RestoreChoice choice;
    std::map<int, std::vector<SimTile>> bodies;  // by rank of the snapshot
  };
  struct PendingFault {
    StateFault fault;
    bool due = false;
  };

  // Time.
  void schedule(Duration in, Action action);
  Duration drawn(int low_ms, int high_ms);
  void log(const std::string& what);
  std::string seat_text(int seat) const;

  // Training (state_world.cpp).
  void enter(int seat);
  void finish_step(int seat);
  void take(int seat);
  void returned(int seat, std::uint64_t step, bool is_safe);
  void kill_trainer(int seat);
  void stop_training();
  bool is_over() const;

  // Keepers (state_keepers.cpp).
  void tell(int seat, const ft::SnapshotEvent& event);
  void when_running(int seat, Action action);
  void carry_out(int seat, const ft::SnapshotAction& action);
  void capture(int seat, int slot, const ft::SnapshotId& id);
  void captured(int seat, int slot, const ft::SnapshotId& id, std::uint32_t incarnation);
  void join(int seat, const ft::SnapshotAction& action);
  void deliver(std::size_t op);
  void receive(int seat, std::size_t op);
  void make_parity(int seat, const KeeperOp& op);
  void kill_keeper(int seat);
  void start_keeper(int seat);
  void stop_keeper(int seat, Duration lasts);
  void resume_keeper(int seat, std::uint32_t incarnation);
  void lose_member(int seat);
  bool has_whole(const PartHolder& holder, const ft::SnapshotId& id);
  void check_committed(int seat, const ft::SnapshotId& id);

  // Flushes (state_flush.cpp).
  void start_flush(int seat, int slot);
  void go_on_flushing(int seat, std::uint32_t number);
  std::string do_flush(int seat, SimFlush& flush);
  std::string verify_files(int seat, const SimFlush& flush);
  void agree_flush(int seat);
  void deliver_flush(const ft::SnapshotId& id);
  void end_flush(int seat);
  void remove_files(int seat, const ft::SnapshotId& older_than);
  std::optional<SimPart> stored_part(int seat, const ft::SnapshotId& id, int rank);

  // Beginning anew, and restores (state_meeting.cpp, state_restore.cpp).
  void plan_meeting(Duration in);
  void meet();
  bool is_everybody_there();
  void replace_lost();
  bool is_in_world(int number) const;
  ft::RestoreReports reports(bool memory, bool storage);
  std::vector<ft::LiveReport> live_reports();
  void check_choice(const std::optional<ft::SnapshotId>& settled);
  void begin_group(const std::optional<ft::SnapshotId>& settled);
  void start_restore(std::uint32_t epoch);
  void restore_rank(std::uint32_t epoch, std::size_t rank);
  std::optional<std::vector<SimTile>> live_body(const ft::RankSource& source);
  std::optional<std::vector<SimTile>> fetch(const ft::RankSource& source);
  std::optional<SimPart> held_part(const ft::SnapshotId& id, int rank, int holder,
                                   ft::PartPlace place);
  static void add_part(std::map<int, SimPart>& parts, SimPart part);
  void end_restore();
  void stop_reading();

  // Faults (state_faults.cpp).
  void happen(StateMoment moment);
  bool strike(const StateFault& fault);
  bool lose_hosts(int first, int count, bool returns);
  void lose_host(int host, bool returns);
  void return_host(int number);
  bool flip(int seat, bool with_hash);
  bool flip_file(int seat, bool is_other);

  SimTrainer& trainer(int seat) { return trainers_.at(static_cast<std::size_t>(seat)); }
  SimKeeper& keeper(int seat) { return keepers_.at(static_cast<std::size_t>(seat)); }
  SimHost& host(int number) { return hosts_.at(static_cast<std::size_t>(number)); }
  int host_of(int seat) const { return seat / scenario_.per_host; }
  SimDisk& disk_of(int seat) { return host(scenario_.shared ? 0 : host_of(seat)).disk; }
  PartHolder holder_of(int seat) { return {seat, keeper(seat).incarnation}; }
  PartHolder disk_holder(int seat) {
    const int number = scenario_.shared ? 0 : host_of(seat);
    return {number, host(number).disk_incarnation};
  }
  bool is_running(int seat) { return keeper(seat).alive && !keeper(seat).stopped; }
  ft::CodePlaces places_of(const SimPart& part) const {
    return {static_cast<int>(part.group.size()) - part.parity, part.parity};
  }

  StateScenario scenario_;
  Random random_;
  StateLedger ledger_;
  StateVerdict verdict_;
  bool with_log_;
  Instant now_;
  Instant healed_;
  Fnv1a happenings_;
  std::uint64_t last_event_ = 0;
  std::priority_queue<StateEvent> events_;
  std::vector<SimHost> hosts_;
  std::vector<SimTrainer> trainers_;
  std::vector<SimKeeper> keepers_;
  std::vector<int> world_;  // seats, by rank
  KeeperGroup group_;
  std::map<std::uint32_t, KeeperGroup> past_;  // of each epoch: who was in it
  bool training_ = false;
  bool meeting_planned_ = false;
  Instant meeting_since_;
  std::uint32_t life_ = 0;
  std::uint32_t last_flush_ = 0;
  std::optional<RestoreRun> restore_;
  std::vector<PendingFault> faults_;
  bool over_ = false;
};

}  // namespace holdfast::sim
