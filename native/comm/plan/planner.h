// Planner: chooses the algorithm of calls that name none, from a table of measurements. Where it
// may measure, the group itself measures what the table lacks at its first use, on memory of the
// planner's own. All ranks choose alike: their tables are equal at the start, every measurement is
// agreed on before it is written down, and what a look-up depends on, a group's placement, changes
// at step boundaries only. Source: Faraj, Yuan, Lowenthal, "STAR-MPI: Self Tuned Adaptive Routines
// for MPI Collective Operations", ICS 2006, section 3; unlike there, the application's own calls
// are never used to try what may be slow.
// Why: docs/decisions/0041-tuning-on-scratch-memory.md
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/plan/plan_table.h"

namespace holdfast::comm {

struct PlannerSettings {
  PlanTable table;        // the same on all ranks
  bool measures = false;  // the same on all ranks
  // Called after each measurement, with all that this planner knows.
  std::function<void(const PlanTable&)> on_measured = nullptr;
};

class Planner {
 public:
  Planner(PlannerSettings settings, std::shared_ptr<const Clock> clock)
      : on_measured_(std::move(settings.on_measured)),
        measures_(settings.measures),
        idle_(settings.table.empty() && !settings.measures),
        clock_(std::move(clock)),
        table_(std::move(settings.table)) {}

  // Fills in the algorithm, if the request has none and the planner knows a better one than the
  // default. May run ops of the group, and fails where they do. Any thread, in the order of the
  // group's calls.
  Status choose(Communicator& group, OpRequest& request);
  // A rank has come in that does not know what was measured here. Any thread, between calls.
  void forget();
  PlanTable table() const;  // any thread

 private:
  Result<std::string> measure(Communicator& group, const OpRequest& request, const PlanKey& key);
  Result<double> time(Communicator& group, const OpRequest& request) const;

  const std::function<void(const PlanTable&)> on_measured_;
  const bool measures_;
  const bool idle_;
  const std::shared_ptr<const Clock> clock_;  // owners: those of the group
  mutable std::mutex mutex_;                  // guards table_
  PlanTable table_;
};

}  // namespace holdfast::comm
