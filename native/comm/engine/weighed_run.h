// Weighed run: a weighted average by messages. The ranks of the run first tell each other their
// weights, in an all-gather of 8 bytes a rank; then the op's own schedule runs, with this rank's
// input scaled wherever it is used (comm/reduce/weighing.h).
//
// Each run agrees on the weights of those who are in it, and of nobody else: what the survivors of
// a loss reduce again is a run of its own, so that every part of a result is divided by the weights
// of exactly those whose data it has.
// Thread: only the holder of the runtime.
// Why: docs/decisions/0177-weights-are-agreed-in-the-run.md
#pragma once

#include <memory>
#include <vector>

#include "comm/engine/run.h"

namespace holdfast::comm {

// Messages of the op's own schedule are numbered from here on; those before are the weights.
inline constexpr std::uint32_t kAfterWeights = 1U << 24;

class WeighedRun final : public Execution {
 public:
  // What is lowered when the weights are known. `arithmetic` gets this rank's weighing.
  struct Later {
    FusedSchedule schedule;
    Layout layout;
    Arithmetic arithmetic;
    Coding coding;
    RunKey key;
  };
  // They outlive the run.
  struct EngineRoom {
    BufferPool& pool;
    LoweringSpace& space;
    const std::vector<Link*>& links;
  };

  // `gather`: this rank's schedule for the weights.
  WeighedRun(double weight, const FusedSchedule& gather, Later later, const EngineRoom& shared);

  void advance() override;
  bool touched() const override { return now().touched(); }
  bool finished() const override { return run_ != nullptr && run_->finished(); }
  const Status& failure() const override { return now().failure(); }
  Rank failed_peer() const override { return now().failed_peer(); }
  std::vector<Rank> waited_for() const override { return now().waited_for(); }
  std::vector<HeldPiece> held() const override;
  EncodedBytes encoded() const override {
    return run_ == nullptr ? EncodedBytes{} : run_->encoded();
  }
  BufferPool::Buffer stop() override { return now().stop(); }

 private:
  Run& now() const { return run_ == nullptr ? *weights_run_ : *run_; }
  void begin();

  Later later_;
  EngineRoom shared_;
  double own_;
  std::vector<double> weights_;  // by rank of the run
  std::unique_ptr<Run> weights_run_;
  std::unique_ptr<Run> run_;
};

}  // namespace holdfast::comm
