#include "comm/op_runs.h"

#include <algorithm>

#include "base/planted.h"
#include "comm/algorithms/catalogue.h"
#include "comm/request_check.h"

namespace holdfast::comm {
bool is_point_to_point(Collective c) { return c == Collective::kSend || c == Collective::kRecv; }

// FNV-1a.
std::uint32_t signature_of(const OpRequest& request, std::uint32_t history) {
  std::uint32_t hash = 2166136261U;
  const auto mix = [&](std::uint32_t value) { hash = (hash ^ value) * 16777619U; };
  mix(history);
  mix(static_cast<std::uint32_t>(request.collective));
  mix(static_cast<std::uint32_t>(request.dtype));
  mix(static_cast<std::uint32_t>(request.op));
  mix(static_cast<std::uint32_t>(request.root.value));
  return hash;
}

std::unique_ptr<Run> OpRuns::make(const OpRequest& request, OpSeq sequence,
                                  std::uint32_t signature) {
  const Schedule& schedule = schedule_for(request);
  return make(request, schedule,
              make_layout(schedule, request.input, request.output, dtype_bytes(request.dtype)),
              sequence, signature);
}

std::unique_ptr<Run> OpRuns::make(const OpRequest& request, const Schedule& schedule,
                                  const Layout& layout, OpSeq sequence, std::uint32_t signature) {
  const Arithmetic arithmetic{request.dtype, request.op, static_cast<std::uint32_t>(size())};
  const Epoch epoch = is_planted(Planted::kAcceptStaleEpoch) ? Epoch{} : config_.view.epoch;
  const RunKey key{config_.id, epoch, sequence.value & ~kPointToPoint, signature, 0};
  return std::make_unique<Run>(lower(schedule, layout, arithmetic, pool_), key, links_);
}

void OpRuns::end(Execution& run) { pool_.give(run.stop()); }

const Schedule& OpRuns::schedule_for(const OpRequest& request) {
  const int hosts =
      config_.hosts.empty() ? 1 : 1 + *std::max_element(config_.hosts.begin(), config_.hosts.end());
  const AlgorithmRow& row = request.algorithm.empty()
                                ? choose_algorithm({request.collective, size(), hosts,
                                                    payload_bytes(request), config_.link_model})
                                : *find_algorithm(request.collective, request.algorithm);
  const std::tuple key{request.collective, std::string(row.algorithm), request.root.value};
  const auto found = schedules_.find(key);
  if (found != schedules_.end()) return found->second;
  const BuildSpec spec{request.collective, config_.rank, size(), request.root, config_.hosts};
  return schedules_.emplace(key, row.build(spec)).first->second;
}

}  // namespace holdfast::comm
