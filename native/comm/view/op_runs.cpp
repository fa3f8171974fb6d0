#include "comm/view/op_runs.h"

#include <algorithm>

#include "base/fnv.h"
#include "base/planted.h"
#include "comm/call/call.h"
#include "comm/call/request_check.h"

namespace holdfast::comm {

std::uint32_t signature_of(const OpRequest& request, std::uint32_t history) {
  Fnv1a32 hash;
  hash.mix(history);
  hash.mix(static_cast<std::uint32_t>(request.collective));
  hash.mix(static_cast<std::uint32_t>(request.dtype));
  hash.mix(static_cast<std::uint32_t>(request.op));
  hash.mix(static_cast<std::uint32_t>(request.root.value));
  hash.mix(coding_text(request).view());
  if (request.on_device) hash.mix(1U);
  return hash.value();
}

std::unique_ptr<Run> OpRuns::make(const OpRequest& request, OpSeq sequence, std::uint32_t signature,
                                  const std::vector<float*>& feedback) {
  const FusedSchedule& schedule = schedule_for(request);
  Layout& layout = space_.layout;
  make_layout(schedule.schedule, request.input, request.output, dtype_bytes(request.dtype), layout);
  const Arithmetic arithmetic{request.dtype, request.op, static_cast<std::uint32_t>(size())};
  Coding coding;
  if (request.codec) {
    coding.codec = *request.codec;
    coding.key = {config_.id.value, sequence.value, 0};
    if (!feedback.empty()) {
      coding.residual.assign(request.residual.begin(), request.residual.end());
      coding.feedback = feedback;
    }
  }
  return make(lower(schedule, layout, arithmetic, pool_, coding, space_), request, sequence,
              signature);
}

std::unique_ptr<Run> OpRuns::make(const OpRequest& request, const FusedSchedule& schedule,
                                  const Layout& layout, OpSeq sequence, std::uint32_t signature) {
  const Arithmetic arithmetic{request.dtype, request.op, static_cast<std::uint32_t>(size())};
  return make(lower(schedule, layout, arithmetic, pool_, {}, space_), request, sequence, signature);
}

std::unique_ptr<Run> OpRuns::make(Program program, const OpRequest& request, OpSeq sequence,
                                  std::uint32_t signature) {
  const Epoch epoch = is_planted(Planted::kAcceptStaleEpoch) ? Epoch{} : config_.view.epoch;
  const RunKey key{config_.id, epoch, number_in_key(sequence), signature, 0, request.priority};
  return std::unique_ptr<Run>(new (recycler_) Run(std::move(program), key, links_, &space_));
}

void OpRuns::end(Execution& run) { pool_.give(run.stop()); }

const AlgorithmRow& OpRuns::row_for(const OpRequest& request) {
  if (!request.codec && !request.algorithm.empty()) {
    return *find_algorithm(request.collective, request.algorithm);
  }
  const std::uint64_t bytes = payload_bytes(request);
  Choice& last = last_choice_;
  if (!request.codec && last.row != nullptr && last.collective == request.collective &&
      last.bytes == bytes) {
    return *last.row;
  }
  if (request.codec) return encoded_row_for(request, config_.fabric.wide_level().has_value());
  const Problem problem{request.collective, bytes, config_.fabric};
  last = {request.collective, bytes, &choose_algorithm(problem)};
  return *last.row;
}

const AlgorithmRow& OpRuns::encoded_row_for(const OpRequest& request, bool levels) {
  if (!request.algorithm.empty()) return *find_encoded(request.collective, request.algorithm);
  return choose_encoded(request.collective, levels, !request.residual.empty());
}

// From what all ranks know alike.
int OpRuns::pieces_for(const OpRequest& request) const {
  if (!request.codec) return 1;
  if (!is_sized_alike(request)) return 1;
  if (!has_blocks_by_rank(request.collective)) {
    return two_phase_pieces(request.input[0].count / static_cast<std::uint64_t>(size()));
  }
  const bool by_output = has_own_input(request.collective);
  std::uint64_t most = 0;
  for (const Block& b : by_output ? request.output : request.input) most = std::max(most, b.count);
  return two_phase_pieces(most);
}

const FusedSchedule& OpRuns::schedule_for(const OpRequest& request) {
  const AlgorithmRow& row = row_for(request);
  last_algorithm_ = row.algorithm;
  const int pieces = pieces_for(request);
  const std::tuple key{request.collective, row.algorithm, request.root.value, pieces};
  const auto found = schedules_.find(key);
  if (found != schedules_.end()) return found->second;
  BuildSpec spec{request.collective, config_.rank, size(), request.root, &config_.fabric};
  spec.pieces = pieces;
  return schedules_.emplace(key, FusedSchedule(row.build(spec))).first->second;
}

}  // namespace holdfast::comm
