// The work of an op on device memory: how callers and their streams wait for it, and how it ends.
// Its subclasses say what it is made of: staged_work.h, chained_work.h.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "device_comm/packed.h"

namespace holdfast::device_comm {

class Staged;

class DeviceWork : public comm::Work, public std::enable_shared_from_this<DeviceWork> {
 public:
  ~DeviceWork() override;

  device::Device& device() const;
  comm::Collective collective() const override { return collective_; }
  bool done() const override;
  Status status() const override;
  const comm::Outcome& outcome() const override;
  Status wait(Duration timeout) override;
  void on_done(std::function<void(const Status&)> callback) override;

  // Blocks the host until it has nothing left to do for streams that wait: the rest has been
  // enqueued on the device, or the op has ended. Returns how the op has gone so far. Any thread.
  Status wait_enqueued();
  // Makes the stream wait until the op has ended, and its result is in device memory; the host
  // waits only where streams cannot (Device::streams_wait()). A failed op sets the stream free as
  // well: status(), and every later op of the group, has the error. Any thread. Before
  // wait_enqueued(), the host must not block in a call of the driver that waits for this stream:
  // such a call may hold what our own calls need.
  Status wait_on(device::CuStream stream);

 protected:
  DeviceWork(std::shared_ptr<Staged> staged, comm::Collective collective);

  // Merges the outcomes of a call made of several ops: contributors are those of every op.
  static void merge(comm::Outcome& all, const comm::Outcome& one, bool first);
  // Called when the device has done all of its part well. Not ok: the result is unusable.
  virtual Status look_at_result() { return Status::ok(); }
  // Gives back the work's memory, once. `idle`: nothing that was enqueued for it is under way; else
  // it comes back when that has ended.
  virtual void give_memory(bool idle) = 0;

  // Takes arrays with gaps that the op's blocks are in: unpacked when the result is there, then
  // freed. Called by the thread that starts the work.
  void take_packed(std::vector<Packed> packed) { packed_ = std::move(packed); }

  // Streams that wait for the work go on behind what our stream down has been given, and behind the
  // unpacking of a result.
  Status set_streams_free();
  // All that is left to do has been enqueued on our stream down, or there is an error: the op ends
  // when the stream has done it. Once.
  void end();
  // Gives back the flag and the memory of a work that has ended, or that never began.
  void give_back(bool idle);

  // Owners: the node, and its works.
  const std::shared_ptr<Staged> staged_;
  const comm::Collective collective_;
  std::optional<device::Flag> flag_;  // set by the thread that starts the work

  mutable std::mutex mutex_;  // guards all below, and what subclasses say
  Status status_;
  comm::Outcome outcome_;  // not written any more once done()

 private:
  Status unpack();
  void free_packed(bool idle);
  Status end_on_device();
  void end_on_host();
  static void came_down(void* held);
  static void finish_soon(std::shared_ptr<DeviceWork> work, bool came);
  void finish(bool came);
  bool is_enqueued() const;
  void wait_until(const std::function<bool()>& reached, Instant deadline);
  void look_at_device();
  Status late(Duration timeout) const;

  std::vector<Packed> packed_;
  bool unpacked_ = false;
  std::condition_variable changed_;
  bool coming_down_ = false;  // all that is left to do has been enqueued
  bool ended_ = false;        // status_ is final
  std::vector<std::function<void(const Status&)>> callbacks_;

  // Streams that wait go on without the host. acquire, release: status_ so far
  std::atomic<bool> streams_free_{false};
  std::atomic<bool> finished_{false};  // acquire, release: results and callbacks' effects
};

}  // namespace holdfast::device_comm
