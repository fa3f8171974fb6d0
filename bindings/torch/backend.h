// The c10d backend: one communicator per process group. collectives.cpp, sparse.cpp and
// monitored_barrier.cpp hold the collectives, groups.cpp makes groups from groups, reconfigure.cpp
// changes a group's members, and backend.cpp has life cycle, coalescing and errors.
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

// The tag of monitoredBarrier's messages, above the tags that callers may use.
inline constexpr std::uint32_t kMonitorTag = 0x7fff'ffff;

// Arguments of dist.* calls besides tensors.
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
  // A backend without members until reconfigure(); until then it reports the caller's rank and
  // size.
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
  // Allocates memory that the other ranks of the host read in place.
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  std::shared_ptr<c10::Allocator> getMemAllocator() override;
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override {
    return sequence_.load(std::memory_order_relaxed);  // relaxed: a number, guards nothing
  }
  // Collective over the new group's members; their rendezvous is `store` (shrink: this group's
  // own).
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
  // A handle that names this process to the others; valid as long as the backend lives.
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  // Gives the backend the members that the handles name: all of them call it, with the same uuid
  // and handles. No other call may run on the backend meanwhile. The ops of the old membership end
  // once the rendezvous of the new members is complete; when that fails, the membership stays as it
  // was.
  WorkPtr reconfigure(const c10d::ReconfigureOptions& opts) override;
#endif
  void registerOnCompletionHook(Observers::Hook&& hook) override;
  void waitForPendingWorks() override;
  // The communicator of the members; raises while the backend has none.
  const std::shared_ptr<comm::Communicator>& group() const;
  // Ranks that have a member in the current view.
  std::vector<int> live_ranks() const;
  // A step boundary, collective over all members. Returns the epoch, the ranks that have a member,
  // and the ranks that have joined.
  std::tuple<std::uint32_t, std::vector<int>, std::vector<int>> advance(
      std::chrono::milliseconds timeout);
  // Whether this is a newcomer that has not taken over the others' state yet.
  bool is_fresh() const { return fresh_; }
  void set_fresh(bool fresh) { fresh_ = fresh; }
  // Priority of the ops that are called from now on.
  std::int32_t priority() const { return priority_.load(std::memory_order_relaxed); }
  void set_priority(std::int32_t priority) { priority_.store(priority, std::memory_order_relaxed); }
  // Setting of the ops that are called from now on; nullopt: the group's.
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
#ifdef C10D_BACKEND_HAS_RECONFIGURE  // came with the single-tensor names
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

  // How a call appears in profiles, and the results that its Future holds.
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

  // Owners: this backend and its works. Null in a backend made for reconfigure(), before its first.
  std::shared_ptr<comm::Communicator> group_;
  bool fresh_ = false;
  // Owners: this backend, its works, its threads.
  const std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
  c10::intrusive_ptr<BackendOptions> options_;
  Home home_;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  mutable std::mutex door_mutex_;
  // The store of the rendezvous when this process has the first handle. Guarded by door_mutex_.
  mutable c10::intrusive_ptr<c10d::TCPStore> door_;
  std::set<int64_t> used_uuids_;
#endif
  const pid_t process_;
  // Owners: this backend, its works, the threads of callbacks_.
  const std::shared_ptr<Observers> observers_ = std::make_shared<Observers>();
  bool timed_ = false;
  std::atomic<std::uint64_t> sequence_{0};  // counts collectives
  std::atomic<std::int32_t> priority_{0};   // relaxed: a number, guards nothing
  comm::HoleChoice on_hole_;

  // The ops started between startCoalescing and endCoalescing. One thread calls both.
  bool coalescing_ = false;
  Started coalesced_;
  TensorList coalesced_results_;
};

}  // namespace holdfast::torch_backend
