// The work of a call on device memory that is a chain of ops of the group, with work of the device
// between them. All ops are numbered when the call is made. The last op is a barrier; or, where a
// rank was lost or something went wrong, the whole call once more, staged through the host.
//
// The ops are protected: they survive losses, and end alike for all members, with the same outcome.
// A subclass decides by such outcomes alone, so all ranks decide alike; and it leaves every input
// as it was until it has decided, so that the call can be done again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device_comm/bounce.h"
#include "device_comm/device_work.h"

namespace holdfast::device_comm {

class ChainedWork : public DeviceWork {
 public:
  ~ChainedWork() override;

  // Starts the ops. Once. An error: no op has begun.
  Status begin(comm::Communicator& group, std::span<const device::CuStream> streams);

  OpSeq sequence() const override;  // of the first of its ops
  Rank source() const override { return {-1}; }
  void tell_wait(comm::OtherWait other) override;

 protected:
  // `steps`: number of its ops, the last one excluded.
  ChainedWork(std::shared_ptr<Staged> staged, const comm::OpRequest& request, Rank rank,
              std::size_t steps);

  // Called by the caller's thread before the first op: takes memory, and enqueues what the device
  // does before that op. An error: the call is refused. Includes take_chain_memory().
  virtual Status prepare(std::span<const device::CuStream> streams) = 0;
  // Called by the caller's thread when the ops have their numbers. The first op's gate must open at
  // some time, whatever happens here.
  virtual void on_numbered() {}
  // The request of a step other than the last; whole_step() adds gate, timeout and priority.
  virtual comm::OpRequest step_request(std::size_t step) = 0;
  // As Gate::fill(), for a step other than the last that was begun before its request was known.
  virtual void fill_step([[maybe_unused]] std::size_t step,
                         [[maybe_unused]] comm::OpRequest& request) {}
  // As Gate::look(), for a step other than the last, while the chain is undecided.
  virtual std::optional<Status> look_at_step(std::size_t step) = 0;
  // A step other than the last has ended well, and the chain is undecided. Called in step order.
  virtual void on_step_ended(std::size_t step, const comm::Outcome& outcome) = 0;
  // The chain ends before a decision, as no op of it has begun or the group has ended.
  virtual void on_broken() {}

  // The decision, once: calls after the first have no effect.
  //
  // The result is there, or on its way on our stream down, and streams that wait may go on.
  // `enqueued`: whether enqueueing it worked.
  void succeed(Status enqueued);
  // Does the call again through the host: inputs are as they were.
  void stage();

  // Merges a step's outcome into the call's; `again`: the data is fetched once more.
  void merge_outcome(const comm::Outcome& outcome, bool again);

  // ok: what was recorded has happened. Nothing: not yet.
  std::optional<Status> look_at(device::CuEvent event) const;
  // Events behind all that may still use the work's memory.
  std::vector<device::CuEvent> pending_events();
  // Takes what ChainedWork itself needs: a flag, and pinned memory, at most `bytes`, through which
  // to do the call again.
  Status take_chain_memory(std::uint64_t bytes);
  // As give_memory(), for what take_chain_memory() took, and for the events of a subclass.
  void give_chain_memory(bool idle, std::vector<device::CuEvent> events);

  const comm::OpRequest request_;
  const Rank rank_;

 private:
  class StepGate;
  enum class Decision : std::uint8_t {
    kOpen,
    kDone,    // the result is there
    kStaged,  // the whole call once more, by the last op
    kBroken,  // the group has ended
  };

  std::shared_ptr<ChainedWork> self();
  comm::OpRequest whole_step(std::size_t step);
  // Called once for each op, when it has ended.
  void on_step(std::size_t step, const Status& status);
  void on_last(const comm::Outcome& outcome);
  // All ops have ended.
  void on_all();
  void decide(Decision decision);
  bool is_decided() const;

  // For gates: holder of the runtime.
  std::optional<Status> look(std::size_t step);
  void fill(std::size_t step, comm::OpRequest& request);

  const std::size_t last_;
  device::Pinned bounce_memory_;
  OpSeq sequence_;
  std::optional<comm::OpRequest> staged_request_;

  // Guarded by mutex_. The ops hold their gates, which hold this work, until each op has ended.
  std::vector<std::shared_ptr<comm::Work>> works_;
  Decision decision_ = Decision::kOpen;
  std::size_t running_ = 0;  // ops that have not ended
  bool any_outcome_ = false;
  Status stage_failure_;
  std::shared_ptr<Bounce> bounce_;  // owners: this, and the device's calls
};

}  // namespace holdfast::device_comm
