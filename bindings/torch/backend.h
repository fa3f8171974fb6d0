// The c10d backend: one communicator per process group. What each collective does with its tensors
// is in collectives.cpp; life cycle, coalescing and errors are in backend.cpp.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "tensors.h"
#include "work.h"

namespace holdfast::torch_backend {

using Tensor = at::Tensor;
using TensorList = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// What dist.* calls hand over besides tensors.
struct CallOptions {
  std::chrono::milliseconds timeout;
  bool async;
};

class HoldfastBackend final : public c10d::Backend {
 public:
  struct BackendOptions final : c10d::Backend::Options {
    explicit BackendOptions(std::chrono::milliseconds limit) : Options("holdfast", limit) {}
  };

  HoldfastBackend(std::shared_ptr<comm::Communicator> group, std::chrono::milliseconds timeout,
                  std::string group_name);
  ~HoldfastBackend() override;

  const std::string getBackendName() const override { return "holdfast"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void abort() override;
  void shutdown() override;
  c10d::ErrorType getError() override;
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override {
    return sequence_.load(std::memory_order_relaxed);  // relaxed: a number, guards nothing
  }
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

  WorkPtr allreduce(TensorList& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(TensorList& tensors,
                              const c10d::AllreduceCoalescedOptions& opts) override;
  // Refused, with what is accepted.
  WorkPtr allreduce_sparse(TensorList& tensors, const c10d::AllreduceOptions& opts) override {
    return allreduce(tensors, opts);
  }
  WorkPtr broadcast(TensorList& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr reduce(TensorList& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(std::vector<TensorList>& outputs, TensorList& inputs,
                    const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(Tensor& output, Tensor& input,
                          const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(std::vector<TensorList>& outputs, TensorList& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr reduce_scatter(TensorList& outputs, std::vector<TensorList>& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(Tensor& output, Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(TensorList& outputs, TensorList& inputs,
                   const c10d::AllToAllOptions& opts) override;
  WorkPtr gather(std::vector<TensorList>& outputs, TensorList& inputs,
                 const c10d::GatherOptions& opts) override;
  WorkPtr scatter(TensorList& outputs, std::vector<TensorList>& inputs,
                  const c10d::ScatterOptions& opts) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  WorkPtr send(TensorList& tensors, int dst, int tag) override;
  WorkPtr recv(TensorList& tensors, int src, int tag) override;

 private:
  // One op to start: the request and the tensors it works on.
  struct Item {
    comm::OpRequest request;
    Tensors tensors;
  };

  bool is_forked() const;
  c10::intrusive_ptr<HoldfastWork> new_work(c10d::OpType type, const char* title,
                                            TensorList results);
  WorkPtr go(c10d::OpType type, const char* title, std::vector<Item> items, TensorList results,
             const CallOptions& call);
  Item all_reduce_item(const Tensor& tensor, const c10d::ReduceOp& op);
  Item all_gather_item(const TensorList& outputs, const Tensor& input);
  Item all_gather_item(const Tensor& output, const Tensor& input);
  Item reduce_scatter_item(const Tensor& output, const TensorList& inputs,
                           const c10d::ReduceOp& op);
  Item reduce_scatter_item(const Tensor& output, const Tensor& input, const c10d::ReduceOp& op);
  Item message_item(const TensorList& tensors, comm::Collective kind, int peer, int tag);

  // Owners: this backend and its works.
  std::shared_ptr<comm::Communicator> group_;
  // Owners: this backend, its works, the threads in it.
  const std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
  c10::intrusive_ptr<BackendOptions> options_;
  const pid_t process_;
  std::atomic<std::uint64_t> sequence_{0};  // of collectives

  // Between startCoalescing and endCoalescing: what was started. One thread calls both.
  bool coalescing_ = false;
  Started coalesced_;
  TensorList coalesced_results_;
};

}  // namespace holdfast::torch_backend
