#include "comm/engine/weighed_run.h"

#include <utility>

namespace holdfast::comm {
namespace {

Block block_of_weight(double& weight) { return {reinterpret_cast<std::byte*>(&weight), 1}; }

}  // namespace

WeighedRun::WeighedRun(double weight, const FusedSchedule& gather, Later later,
                       const EngineRoom& shared)
    : later_(std::move(later)),
      shared_(shared),
      own_(weight),
      weights_(static_cast<std::size_t>(gather.schedule.size)) {
  BlockList all;
  for (double& one : weights_) all.push_back(block_of_weight(one));
  const Layout layout = make_layout(gather.schedule, {block_of_weight(own_)}, all, sizeof(double));
  weights_run_ =
      std::make_unique<Run>(lower(gather, layout, {DType::kF64}, shared_.pool, {}, shared_.space),
                            later_.key, shared_.links, &shared_.space);
}

void WeighedRun::advance() {
  if (run_ == nullptr) {
    weights_run_->advance();
    if (!weights_run_->finished()) return;
    begin();
  }
  run_->advance();
}

void WeighedRun::begin() {
  shared_.pool.give(weights_run_->stop());
  later_.arithmetic.weighing =
      WeightScales(weights_).weighing_of(later_.schedule.schedule.rank.value);
  RunKey key = later_.key;
  key.first_ordinal = kAfterWeights;
  run_ = std::make_unique<Run>(lower(later_.schedule, later_.layout, later_.arithmetic,
                                     shared_.pool, later_.coding, shared_.space),
                               key, shared_.links, &shared_.space);
}

std::vector<Execution::HeldPiece> WeighedRun::held() const {
  return run_ == nullptr ? std::vector<HeldPiece>{} : run_->held();
}

}  // namespace holdfast::comm
