// c10d::Work over one or more ops of a communicator (coalesced calls have several).
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <vector>

#include "callbacks.h"
#include "comm/communicator.h"
#include "observers.h"
#include "tensors.h"

namespace holdfast::torch_backend {

// Ops that were started, and their tensors.
struct Started {
  std::vector<std::shared_ptr<comm::Work>> ops;
  std::vector<Tensors> tensors;
  bool lazy = false;  // the caller is expected to wait; no thread drives the ops meanwhile
  bool may_have_holes = false;  // an op may fail for a hole, while the group goes on

  void append(Started more) {
    std::move(more.ops.begin(), more.ops.end(), std::back_inserter(ops));
    std::move(more.tensors.begin(), more.tensors.end(), std::back_inserter(tensors));
    may_have_holes = may_have_holes || more.may_have_holes;
  }
};

class HoldfastWork final : public c10d::Work {
 public:
  // The data of a Work besides its ops.
  struct About {
    int rank = 0;
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = nullptr;  // in profiles; a literal
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> results;  // the Future's value
    std::uint64_t sequence = 0;
    bool timed = false;
  };
  HoldfastWork(About about, std::shared_ptr<comm::Communicator> group,
               std::shared_ptr<Callbacks> callbacks, std::shared_ptr<Observers> observers)
      : c10d::Work(about.rank, about.type, at::hasCallbacks() ? about.title : nullptr,
                   about.inputs),
        results_(std::move(about.results)),
        sequence_(about.sequence),
        hooked_(observers->hooked()),
        watched_(observers->watched()),
        timed_(about.timed || watched_),
        group_(std::move(group)),
        callbacks_(std::move(callbacks)),
        observers_(std::move(observers)) {}

  void follow(Started started);  // call once
  // Drives lazily started ops for a moment on the calling thread, then leaves them to the runtime's
  // thread.
  void push();

  bool isCompleted() override {
    if (ended_.load(std::memory_order_acquire)) return true;
    look_after();
    return false;
  }
  bool isSuccess() const override;
  // On CUDA tensors and without a timeout, the current stream waits for the result, and the host
  // until it is on its way to the device. For an op that may fail for a hole the host waits for the
  // op's end.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  // As wait() on CUDA tensors; does nothing for other tensors.
  void synchronize() override { [[maybe_unused]] const bool all = streams_wait(); }
  void abort() override;
  std::vector<at::Tensor> result() override { return results_; }
  // It completes when the op has ended.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  // A Future whose value is a c10d::WorkResult; it never fails.
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  int sourceRank() const override;
  float getDuration() const override;  // milliseconds; throws when timing is off
  uint64_t getSequencenumber() const override { return sequence_; }
  // Tells how a caller waits for the Futures of this work. getFuture() does not know, so a caller
  // that does tells it afterwards.
  void tell_wait(comm::OtherWait other) const;
  // The outcome of all its ops together, once it has ended well; throws before.
  comm::Outcome made_of() const;

 private:
  bool streams_wait() const;
  std::vector<c10::Device> devices() const;
  void end_one(const Status& status);
  void end();
  void look_after();
  void tell_observers();
  c10d::WorkResult outcome() const;
  void complete(c10::ivalue::Future& future) const;
  c10::intrusive_ptr<c10::ivalue::Future> completing() const;

  const std::vector<at::Tensor> results_;
  const std::uint64_t sequence_;
  const bool hooked_;   // it began after the group's hook was registered
  const bool watched_;  // works are reported to observers
  const bool timed_;
  // Owners: the process group, its works.
  const std::shared_ptr<comm::Communicator> group_;
  const std::shared_ptr<Callbacks> callbacks_;
  const std::shared_ptr<Observers> observers_;
  std::chrono::steady_clock::time_point began_;  // set when timed_
  std::chrono::steady_clock::time_point ended_at_;
  std::vector<std::shared_ptr<comm::Work>> ops_;
  std::vector<Tensors> tensors_;
  bool may_have_holes_ = false;  // as in Started
  std::atomic<bool> lazy_{false};
  std::atomic<std::size_t> left_{0};
  std::atomic<bool> ended_{false};
  mutable std::mutex state_mutex_;  // guards the members below
  bool settled_ = false;            // failure_ is final
  std::exception_ptr failure_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  c10::intrusive_ptr<c10::ivalue::Future> future_result_;
  bool has_python_callbacks_ = false;  // true when it may have some
};

}  // namespace holdfast::torch_backend
