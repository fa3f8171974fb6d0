// Op runs: makes runs of the engine from the collectives of one communicator. Keeps the schedules
// that were built, and scratch memory.
//
// Thread: only the holder of the runtime.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "comm/call/op_work.h"
#include "comm/engine/buffer_pool.h"
#include "comm/engine/run.h"
#include "comm/engine/weighed_run.h"
#include "comm/plan/route.h"
#include "comm/view/communicator_config.h"

namespace holdfast::comm {

// Hash of what must agree between ranks, `history` of earlier calls and the version of the map of
// links included; sizes are compared separately as well.
std::uint32_t signature_of(const OpRequest& request, std::uint32_t history,
                           std::uint32_t map_version = 0);

class OpRuns {
 public:
  // `config` and `links` must outlive this object.
  OpRuns(const CommunicatorConfig& config, const std::vector<Link*>& links)
      : config_(config), links_(links) {
    space_.links = &links_;
  }

  // Makes a run by a plan for a schedule. `feedback`: by input block, where to write the residual
  // that the op leaves; empty: nowhere.
  std::unique_ptr<Execution> make(const OpRequest& request, const Plan& plan, OpSeq sequence,
                                  std::uint32_t signature, const std::vector<float*>& feedback);
  // Makes a run of a schedule outside the catalogue, which weighs nothing.
  std::unique_ptr<Run> make(const OpRequest& request, const FusedSchedule& schedule,
                            const Layout& layout, OpSeq sequence, std::uint32_t signature);
  // As make(), where the request has a weight.
  std::unique_ptr<Execution> make_weighed(const OpRequest& request, FusedSchedule schedule,
                                          Layout layout, OpSeq sequence, std::uint32_t signature,
                                          Coding coding = {});
  // The schedule that a run by that plan goes by.
  const Schedule& schedule_of(const OpRequest& request, const Plan& plan, OpSeq sequence) {
    return schedule_for(request, plan, sequence).schedule;
  }
  // No op goes by an older map of links any more, but for those that run.
  void forget_schedules();
  // Stops the run and takes its scratch memory back.
  void end(Execution& run);

 private:
  int size() const { return static_cast<int>(links_.size()); }
  Arithmetic arithmetic_of(const OpRequest& request) const;
  const FusedSchedule& schedule_for(const OpRequest& request, const Plan& plan, OpSeq sequence);
  RunKey key_of(const OpRequest& request, OpSeq sequence, std::uint32_t signature) const;
  std::unique_ptr<Run> make(Program program, const RunKey& key);

  const CommunicatorConfig& config_;
  const std::vector<Link*>& links_;
  BufferPool pool_;
  Recycler recycler_;
  LoweringSpace space_;
  std::optional<FusedSchedule> weights_;  // of the all-gather of weights; made for the first
  // By collective, algorithm (a row of the catalogue), root, pieces, and version of the map.
  std::map<std::tuple<Collective, std::string_view, int, int, std::uint32_t>, FusedSchedule>
      schedules_;
};

}  // namespace holdfast::comm
