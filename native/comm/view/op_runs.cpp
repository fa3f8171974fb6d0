#include "comm/view/op_runs.h"

#include "base/fnv.h"
#include "base/planted.h"
#include "comm/algorithms/catalogue.h"
#include "comm/call/call.h"

namespace holdfast::comm {

std::uint32_t signature_of(const OpRequest& request, std::uint32_t history,
                           std::uint32_t map_version) {
  Fnv1a32 hash;
  hash.mix(history);
  hash.mix(static_cast<std::uint32_t>(request.collective));
  hash.mix(static_cast<std::uint32_t>(request.dtype));
  hash.mix(static_cast<std::uint32_t>(request.op));
  hash.mix(static_cast<std::uint32_t>(request.root.value));
  hash.mix(coding_text(request).view());
  if (request.how.on_device) hash.mix(1U);
  if (request.weight) hash.mix(4U);
  if (map_version > 0) hash.mix(map_version);
  // Most calls have neither.
  if (request.user != nullptr || request.order != FoldOrder::kAny) {
    hash.mix(request.keeps_order() ? 2U : 3U);
    hash.mix(static_cast<std::uint32_t>(request.element_bytes()));
  }
  return hash.value();
}

std::unique_ptr<Execution> OpRuns::make(const OpRequest& request, const Plan& plan, OpSeq sequence,
                                        std::uint32_t signature,
                                        const std::vector<float*>& feedback) {
  const FusedSchedule& schedule = schedule_for(request, plan, sequence);
  Layout& layout = space_.layout;
  make_layout(schedule.schedule, request.input, request.output, request.element_bytes(), layout);
  const Arithmetic arithmetic = arithmetic_of(request);
  Coding coding;
  if (request.codec) {
    coding.codec = *request.codec;
    coding.key = {config_.id.value, sequence.value, 0};
    if (!feedback.empty()) {
      coding.residual.assign(request.residual.begin(), request.residual.end());
      coding.feedback = feedback;
    }
  }
  if (request.weight) {
    return make_weighed(request, schedule, layout, sequence, signature, std::move(coding));
  }
  return make(lower(schedule, layout, arithmetic, pool_, coding, space_),
              key_of(request, sequence, signature));
}

std::unique_ptr<Execution> OpRuns::make_weighed(const OpRequest& request, FusedSchedule schedule,
                                                Layout layout, OpSeq sequence,
                                                std::uint32_t signature, Coding coding) {
  if (!weights_) {
    const AlgorithmRow& row = *find_algorithm(Collective::kAllGather, "bruck");
    weights_.emplace(row.build({Collective::kAllGather, config_.rank, size(), {}, {}}));
  }
  const WeighedRun::EngineRoom shared{pool_, space_, links_};
  WeighedRun::Later later{std::move(schedule), std::move(layout), arithmetic_of(request),
                          std::move(coding), key_of(request, sequence, signature)};
  return std::unique_ptr<Execution>(
      new (recycler_) WeighedRun(*request.weight, *weights_, std::move(later), shared));
}

std::unique_ptr<Run> OpRuns::make(const OpRequest& request, const FusedSchedule& schedule,
                                  const Layout& layout, OpSeq sequence, std::uint32_t signature) {
  const Arithmetic arithmetic = arithmetic_of(request);
  return make(lower(schedule, layout, arithmetic, pool_, {}, space_),
              key_of(request, sequence, signature));
}

RunKey OpRuns::key_of(const OpRequest& request, OpSeq sequence, std::uint32_t signature) const {
  const Epoch epoch = is_planted(Planted::kAcceptStaleEpoch) ? Epoch{} : config_.view.epoch;
  return {config_.id, epoch, number_in_key(sequence), signature, 0, request.priority};
}

std::unique_ptr<Run> OpRuns::make(Program program, const RunKey& key) {
  return std::unique_ptr<Run>(new (recycler_) Run(std::move(program), key, links_, &space_));
}

Arithmetic OpRuns::arithmetic_of(const OpRequest& request) const {
  return {request.dtype, request.op, static_cast<std::uint32_t>(size()), request.user.get()};
}

void OpRuns::end(Execution& run) { pool_.give(run.stop()); }

void OpRuns::forget_schedules() { schedules_.clear(); }

const FusedSchedule& OpRuns::schedule_for(const OpRequest& request, const Plan& plan,
                                          OpSeq sequence) {
  const AlgorithmRow& row = *plan.algorithm;
  const std::tuple key{request.collective, row.algorithm, request.root.value, plan.pieces,
                       config_.fabric.number_of(sequence)};
  const auto found = schedules_.find(key);
  if (found != schedules_.end()) return found->second;
  BuildSpec spec{request.collective, config_.rank, size(), request.root,
                 &config_.fabric.of(sequence)};
  spec.pieces = plan.pieces;
  spec.trees = plan.trees;
  return schedules_.emplace(key, FusedSchedule(row.build(spec))).first->second;
}

}  // namespace holdfast::comm
