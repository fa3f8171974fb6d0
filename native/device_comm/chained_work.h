// The work of a call on device memory that is a row of ops of the group, with work of the device
// between them. All are numbered when it is called. Its last op is a barrier; or, where a rank was
// lost or something went wrong, the whole call once more, staged through the host.
//
// The ops are protected: they survive losses, and end alike for all members, with the same outcome.
// A kind decides by such outcomes alone, so all ranks decide alike; and it leaves every input as it
// was until it has decided, so that the call can be done again.
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

  // Once. An error: no op has begun.
  Status begin(comm::Communicator& group, std::span<const device::CuStream> streams);

  OpSeq sequence() const override;  // of the first of its ops
  Rank source() const override { return {-1}; }
  void tell_wait(comm::OtherWait other) override;

 protected:
  // `steps`: its ops but the last.
  ChainedWork(std::shared_ptr<Staged> staged, const comm::OpRequest& request, Rank rank,
              std::size_t steps);

  // By the caller, before the first op: memory, and what the device does before it. An error: it is
  // refused. take_row_memory() is a part of it.
  virtual Status prepare(std::span<const device::CuStream> streams) = 0;
  // By the caller, when the first op has its number, and before its gate is looked at in earnest:
  // it must open at some time, whatever happens here.
  virtual void on_numbered() {}
  // Of the steps but the last; gate, timeout and priority are put in.
  virtual comm::OpRequest step_request(std::size_t step) = 0;
  // As Gate::fill(), likewise: of a step that was begun before anybody knew what it is.
  virtual void fill_step([[maybe_unused]] std::size_t step,
                         [[maybe_unused]] comm::OpRequest& request) {}
  // As Gate::look(), for the steps but the last, while nothing is decided.
  virtual std::optional<Status> look_at_step(std::size_t step) = 0;
  // A step but the last has ended well, and nothing is decided. One after the other.
  virtual void on_step_ended(std::size_t step, const comm::Outcome& outcome) = 0;
  // The row ends before a decision, as no op of it has begun or the group has ended.
  virtual void on_broken() {}

  // How it is decided, once; what comes later counts for nothing.
  //
  // The result is there, or on its way on our stream down, and streams that wait may go on.
  // `enqueued`: whether it could be.
  void succeed(Status enqueued);
  // Once more, through the host: inputs are as they were.
  void stage();

  // The outcome of the first step is the call's; `again`: data is fetched once more.
  void merge_outcome(const comm::Outcome& outcome, bool again);

  // ok: what was recorded has happened. Nothing: not yet.
  std::optional<Status> look_at(device::CuEvent event) const;
  // Behind all that may still use a work's memory.
  std::vector<device::CuEvent> pending_events();
  // What ChainedWork itself needs: pinned memory of `bytes` at most, to do the call again through,
  // and a flag.
  Status take_row_memory(std::uint64_t bytes);
  // As give_memory(), of that and of a kind's events.
  void give_row_memory(bool idle, std::vector<device::CuEvent> events);

  const comm::OpRequest request_;
  const Rank rank_;

 private:
  class StepGate;
  enum class Decision : std::uint8_t {
    kOpen,
    kDone,    // the result is there
    kStaged,  // all of it once more, by the last op
    kBroken,  // the group has ended
  };

  std::shared_ptr<ChainedWork> self();
  comm::OpRequest whole_step(std::size_t step);
  // Once for each op, when it has ended.
  void on_step(std::size_t step, const Status& status);
  void on_last(const comm::Outcome& outcome);
  // When all of them have.
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

  // Guarded by mutex_.
  // They hold their gates, which hold this: until each has ended.
  std::vector<std::shared_ptr<comm::Work>> works_;
  Decision decision_ = Decision::kOpen;
  std::size_t running_ = 0;  // ops that have not ended
  bool any_outcome_ = false;
  Status stage_failure_;
  std::shared_ptr<Bounce> bounce_;  // owners: this, and the device's calls
};

}  // namespace holdfast::device_comm
