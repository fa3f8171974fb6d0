// The work of a staged op (staged.h): the host ops it is made of, and where their memory goes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/staged.h"

namespace holdfast::runtime {

class StagedWork final : public comm::Work, public std::enable_shared_from_this<StagedWork> {
 public:
  // A run of bytes in device memory, and what stands for it.
  struct Copy {
    device::DevicePointer device = 0;
    std::byte* host = nullptr;
    std::uint64_t bytes = 0;
  };
  // A host op: the whole, or a slice of it.
  struct Part {
    device::Pinned memory;
    comm::OpRequest request;                 // until it starts
    std::optional<device::CuEvent> arrived;  // its input is in `memory`
    std::vector<Copy> up;
    std::vector<Copy> down;
    std::shared_ptr<comm::Work> work;  // nothing: not started
  };

  StagedWork(std::shared_ptr<Staged> staged, comm::Collective collective);
  ~StagedWork() override;

  device::Device& device() const;
  comm::Collective collective() const override { return collective_; }
  OpSeq sequence() const override;  // of its first part
  bool done() const override;
  Status status() const override;
  Rank source() const override;
  const comm::Outcome& outcome() const override;
  Status wait(Duration timeout) override;
  void tell_wait(comm::OtherWait other) override;
  void on_done(std::function<void(const Status&)> callback) override;

  // Makes the stream wait until the op has ended, and its result is in device memory; the host
  // waits only where streams cannot (Device::streams_wait()). An op that fails sets the stream free
  // as well: its error is status(), and of every later op of the group. Any thread.
  Status wait_on(device::CuStream stream);

 private:
  friend class Staged;

  // Once for each part, when its op has ended.
  void on_part(std::size_t part, const Status& status);
  Status copy_down(const Part& part);
  // After the last part: one of them, or the second because the first failed.
  Status end_on_device();
  void end_on_host();
  static void came_down(void* held);
  static void finish_soon(std::shared_ptr<StagedWork> work, bool came);
  void finish(bool came);
  void give_memory(bool idle);
  Status unpack();
  void free_packed(bool idle);
  void look_at_device();
  Status late(Duration timeout) const;

  // Owners: the node, and its works.
  const std::shared_ptr<Staged> staged_;
  const comm::Collective collective_;
  std::vector<Part> parts_;  // by whoever starts it, until all are started
  std::optional<device::Flag> flag_;
  std::vector<Packed> packed_;  // arrays with gaps, of the call

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::size_t running_ = 0;  // parts that have not ended
  Status status_;
  comm::Outcome outcome_;  // not written any more once done()
  bool any_outcome_ = false;
  bool coming_down_ = false;  // the device has what is left to do
  bool ended_ = false;        // status_ is final
  std::vector<std::function<void(const Status&)>> callbacks_;

  std::atomic<bool> finished_{false};  // acquire, release: results and callbacks' effects
};

}  // namespace holdfast::runtime
