// The c10d backend: one communicator per process group. What each collective does with its tensors
// is in collectives.cpp, sparse.cpp and monitored_barrier.cpp, how groups come from groups in
// groups.cpp, how one gets other members in reconfigure.cpp; life cycle, coalescing and errors are
// in backend.cpp.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "comm/communicator.h"
#include "groups.h"
#include "observers.h"
#include "tensors.h"
#include "work.h"

namespace holdfast::torch_backend {

using Tensor = at::Tensor;
using TensorList = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using c10d::OpType;

// The tag of monitoredBarrier's messages, above what callers may use.
inline constexpr std::uint32_t kMonitorTag = 0x7fff'ffff;

// What dist.* calls hand over besides tensors.
struct CallOptions {
  std::chrono::milliseconds timeout;
  bool async;
};

class HoldfastBackend final : public c10d::Backend {
 public:
  struct BackendOptions final : c10d::Backend::Options {
    explicit BackendOptions(std::chrono::milliseconds limit) : Options("holdfast", limit) {}
#ifdef C10D_BACKEND_HAS_RECONFIGURE
    c10::intrusive_ptr<Options> clone() const override {
      return c10::make_intrusive<BackendOptions>(*this);
    }
#endif
  };

  HoldfastBackend(std::shared_ptr<comm::Communicator> group, Home home);
  // Without members until reconfigure(); rank and size are what the caller calls itself meanwhile.
  HoldfastBackend(Home home, int rank, int size);
  ~HoldfastBackend() override;

  const std::string getBackendName() const override { return "holdfast"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void abort() override;
  void shutdown() override;
  c10d::ErrorType getError() override;
  bool supportsCoalescing() const override { return true; }
  bool supportsSplitting() const override { return true; }
  bool supportsShrinking() const override { return true; }
  bool supportsTimeEstimation() const override { return false; }
  // Memory that the other ranks of the host read where it lies.
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  std::shared_ptr<c10::Allocator> getMemAllocator() override;
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override {
    return sequence_.load(std::memory_order_relaxed);  // relaxed: a number, guards nothing
  }
  // Collective over the new group's members; they meet through `store` (shrink: this group's own).
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                    const c10::intrusive_ptr<Options>& options, const int& rank,
                                    const int& size) override;
  c10::intrusive_ptr<Backend> shrink(const std::vector<int64_t>& ranks_to_exclude, int flags,
                                     const c10::intrusive_ptr<Options>& options) override;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override { return home_.node != nullptr; }
  // Names this process to the others. Good as long as the backend lives.
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  // Gives the backend the members that the handles name: all of them call it, with the same uuid
  // and handles. No other call may run on the backend meanwhile. The ops of the old membership are
  // ended once all have met; when that fails, it stays as it was.
  WorkPtr reconfigure(const c10d::ReconfigureOptions& opts) override;
#endif
  void registerOnCompletionHook(Observers::Hook&& hook) override;
  void waitForPendingWorks() override;
  // The members' communicator; raises as long as there is none.
  const std::shared_ptr<comm::Communicator>& group() const;
  // Ranks that have a member in the current view.
  std::vector<int> live_ranks() const;
  // A step boundary: (epoch, ranks that are there). Collective over those ranks.
  // Epoch, ranks that are there, ranks that have come in.
  std::tuple<std::uint32_t, std::vector<int>, std::vector<int>> advance(
      std::chrono::milliseconds timeout);
  // A newcomer that has not taken over the others' state yet.
  bool is_fresh() const { return fresh_; }
  void set_fresh(bool fresh) { fresh_ = fresh; }
  // Of the ops that are called from now on.
  std::int32_t priority() const { return priority_.load(std::memory_order_relaxed); }
  void set_priority(std::int32_t priority) { priority_.store(priority, std::memory_order_relaxed); }
  // Of the ops that are called from now on; nothing: as the group has it.
  std::optional<comm::OnHole> on_hole() const { return on_hole_.get(); }
  void set_on_hole(std::optional<comm::OnHole> value) { on_hole_.set(value); }
  void enableCollectivesTiming() override { timed_ = true; }
#ifdef C10D_BACKEND_HAS_HOOKS
  void registerAbortHook(int64_t id, c10d::AbortHook hook) override {
    observers_->add_abort_hook(id, std::move(hook));
  }
  void unregisterAbortHook(int64_t id) override { observers_->remove_abort_hook(id); }
#endif
#ifdef HOLDFAST_HAS_COMPLETION_HOOKS
  bool supportsAbortHooks() const override { return true; }
  bool supportsCompletionHooks() const override { return true; }
  void registerCompletionHook(int64_t id, c10d::CompletionHook hook) override {
    observers_->add_completion_hook(id, std::move(hook));
  }
  void unregisterCompletionHook(int64_t id) override { observers_->remove_completion_hook(id); }
#endif
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

  WorkPtr allreduce(TensorList& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(TensorList& tensors,
                              const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr allreduce_sparse(TensorList& tensors, const c10d::AllreduceOptions& opts) override;
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
#ifdef C10D_BACKEND_HAS_RECONFIGURE  // which came with the single-tensor names
  WorkPtr gather_into_tensor(Tensor& output, Tensor& input,
                             const c10d::GatherOptions& opts) override;
#endif
  WorkPtr scatter(TensorList& outputs, std::vector<TensorList>& inputs,
                  const c10d::ScatterOptions& opts) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  WorkPtr send(TensorList& tensors, int dst, int tag) override;
  WorkPtr recv(TensorList& tensors, int src, int tag) override;
  WorkPtr recvAnysource(TensorList& tensors, int tag) override;

 private:
  // One op to start: the request and the tensors it works on.
  struct Item {
    comm::OpRequest request;
    Tensors tensors;
  };

  // How a call shows in profiles, and what its Future holds.
  struct Face {
    OpType type = OpType::UNKNOWN;
    const char* title = nullptr;  // a literal
    TensorList inputs;
    TensorList results;
  };

  bool is_forked() const;
  void refuse_in_child() const;
  c10::intrusive_ptr<HoldfastWork> new_work(Face face);
  WorkPtr go(Face face, std::vector<Item> items, const CallOptions& call);
  Home home_for(const c10::intrusive_ptr<c10d::Store>& store, const std::string& kind,
                const c10::intrusive_ptr<Options>& options) const;
  std::shared_ptr<comm::Work> signal(comm::Collective kind, int peer);
  void watch_barrier(std::chrono::milliseconds limit, bool wait_all_ranks);
  Item all_reduce_item(const Tensor& tensor, const c10d::ReduceOp& op);
  Item all_gather_item(const TensorList& outputs, const Tensor& input);
  Item all_gather_item(const Tensor& output, const Tensor& input);
  Item reduce_scatter_item(const Tensor& output, const TensorList& inputs,
                           const c10d::ReduceOp& op);
  Item reduce_scatter_item(const Tensor& output, const Tensor& input, const c10d::ReduceOp& op);
  Item message_item(const TensorList& tensors, comm::Collective kind, int peer, int tag);

  // Owners: this backend and its works. Null before the first reconfigure(), for one made for it.
  std::shared_ptr<comm::Communicator> group_;
  bool fresh_ = false;
  // Owners: this backend, its works, the threads in it.
  const std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
  c10::intrusive_ptr<BackendOptions> options_;
  Home home_;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  mutable std::mutex door_mutex_;
  // The store that others meet in when this process is their first. Guarded by door_mutex_.
  mutable c10::intrusive_ptr<c10d::TCPStore> door_;
  std::set<int64_t> used_uuids_;
#endif
  const pid_t process_;
  // Owners: this backend, its works, the threads of callbacks_.
  const std::shared_ptr<Observers> observers_ = std::make_shared<Observers>();
  bool timed_ = false;
  std::atomic<std::uint64_t> sequence_{0};  // of collectives
  std::atomic<std::int32_t> priority_{0};   // relaxed: a number, guards nothing
  comm::HoleChoice on_hole_;

  // Between startCoalescing and endCoalescing: what was started. One thread calls both.
  bool coalescing_ = false;
  Started coalesced_;
  TensorList coalesced_results_;
};

}  // namespace holdfast::torch_backend
