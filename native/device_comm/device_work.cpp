#include "device_comm/device_work.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "device_comm/staged.h"

namespace holdfast::device_comm {
namespace {

using device::Cu;
using device::Device;

// A lost device calls no callback: a waiting thread asks it at this interval.
constexpr Duration kDeviceLook = std::chrono::milliseconds(20);

Instant now() { return {std::chrono::steady_clock::now().time_since_epoch()}; }

}  // namespace

DeviceWork::DeviceWork(std::shared_ptr<Staged> staged, comm::Collective collective)
    : staged_(std::move(staged)), collective_(collective) {}

DeviceWork::~DeviceWork() = default;

Device& DeviceWork::device() const { return staged_->device(); }

bool DeviceWork::done() const { return finished_.load(std::memory_order_acquire); }

Status DeviceWork::status() const {
  CHECK(done());
  const std::lock_guard lock(mutex_);
  return status_;
}

const comm::Outcome& DeviceWork::outcome() const { return outcome_; }

void DeviceWork::on_done(std::function<void(const Status&)> callback) {
  Status status;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
    status = status_;
  }
  callback(status);
}

Status DeviceWork::wait(Duration timeout) {
  wait_until([this] { return done(); }, now() + timeout);
  return done() ? status() : late(timeout);
}

Status DeviceWork::wait_enqueued() {
  wait_until([this] { return is_enqueued(); }, now() + kForever);
  const std::lock_guard lock(mutex_);
  return status_;
}

bool DeviceWork::is_enqueued() const {
  return done() || streams_free_.load(std::memory_order_acquire);
}

void DeviceWork::wait_until(const std::function<bool()>& reached, Instant deadline) {
  while (!reached()) {
    const Instant look = std::min(deadline, now() + kDeviceLook);
    if (const auto executor = staged_->executor()) {
      executor->drive_until(reached, look);
    } else {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, std::chrono::steady_clock::time_point(look.since_origin), reached);
    }
    if (reached()) return;
    look_at_device();
    if (now() >= deadline) return;
  }
}

Status DeviceWork::late(Duration timeout) const {
  return {Code::kTimeout, std::string(collective_name(collective_)) + " #" +
                              std::to_string(sequence().value) + " is still running after " +
                              std::to_string(std::chrono::duration<double>(timeout).count()) +
                              " s of waiting"};
}

Status DeviceWork::wait_on(device::CuStream stream) {
  if (done()) return status();
  if (!device().streams_wait()) return wait(kForever);
  const Device::Current current(device());
  TRY(current.status());
  TRY(device().check_capture(stream, "waiting for " + std::string(collective_name(collective_))));
  return device().check(device().driver().stream_wait_value32(stream, flag_->device, flag_->due,
                                                              device::kWaitGreaterOrEqual),
                        "making a stream wait");
}

void DeviceWork::merge(comm::Outcome& all, const comm::Outcome& one, bool first) {
  if (first) {
    all = one;
    return;
  }
  comm::Outcome merged;
  merged.epoch = std::max(all.epoch, one.epoch);
  merged.retried = all.retried || one.retried;
  std::set_intersection(all.contributors.begin(), all.contributors.end(), one.contributors.begin(),
                        one.contributors.end(), std::back_inserter(merged.contributors));
  std::set_union(all.missing.begin(), all.missing.end(), one.missing.begin(), one.missing.end(),
                 std::back_inserter(merged.missing));
  all = std::move(merged);
}

// The result is on its way down: the rest follows it on the same stream. A failed op ends there,
// too: parts of its result may be on their way into the caller's memory.
void DeviceWork::end() {
  if (!end_on_device().is_ok()) end_on_host();
}

Status DeviceWork::set_streams_free() {
  const Device::Current current(device());
  TRY(current.status());
  TRY(unpack());
  if (device().streams_wait()) {
    const Cu written =
        device().driver().stream_write_value32(staged_->down(), flag_->device, flag_->due, 0);
    TRY(device().check(written, "writing a value"));
  }
  {
    const std::lock_guard lock(mutex_);
    streams_free_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  return Status::ok();
}

// Unpacks once, and nothing for an op that has failed.
Status DeviceWork::unpack() {
  {
    const std::lock_guard lock(mutex_);
    if (!status_.is_ok() || std::exchange(unpacked_, true)) return Status::ok();
  }
  for (const Packed& packed : packed_) {
    if (packed.written()) TRY(packed.unpack(staged_->kernels(), staged_->down()));
  }
  return Status::ok();
}

// As give_memory(), for packed_. A lost device has taken its memory along, whatever these calls
// return.
void DeviceWork::free_packed(bool idle) {
  if (packed_.empty()) return;
  [[maybe_unused]] Status status;
  if (!idle) status = device().order(staged_->up(), staged_->down());
  for (const Packed& packed : packed_) status = packed.release(device(), staged_->down());
  packed_.clear();
}

Status DeviceWork::end_on_device() {
  const Device::Current current(device());
  const device::CudaDriver& d = device().driver();
  Status enqueued = set_streams_free();
  if (enqueued.is_ok()) {
    auto* held = new std::shared_ptr<DeviceWork>(shared_from_this());
    const Cu told = d.launch_host_func(staged_->down(), came_down, held);
    if (told != Cu::kSuccess) delete held;
    enqueued = device().check(told, "enqueueing a call");
  }
  const std::lock_guard lock(mutex_);
  coming_down_ = enqueued.is_ok();
  if (status_.is_ok()) status_ = enqueued;
  return enqueued;
}

// Runs on a thread of the driver, which must not be held up.
void DeviceWork::came_down(void* held) {
  const std::unique_ptr<std::shared_ptr<DeviceWork>> work(
      static_cast<std::shared_ptr<DeviceWork>*>(held));
  finish_soon(std::move(*work), true);
}

// Runs finish() on the runtime's thread, with the runtime released, as all ops end.
void DeviceWork::finish_soon(std::shared_ptr<DeviceWork> work, bool came) {
  auto executor = work->staged_->executor();
  if (executor == nullptr) return work->finish(came);
  comm::Executor* runs = executor.get();
  // The task keeps the runtime: the runtime must not end on a thread of the driver.
  runs->submit(
      [executor = std::move(executor), came, work = std::move(work)]() mutable {
        executor->defer([came, work = std::move(work)] { work->finish(came); });
      },
      true);
}

// The device does nothing more for the op; streams that wait are set free.
void DeviceWork::end_on_host() {
  Device::raise(*flag_);
  finish_soon(shared_from_this(), false);
}

// `came`: the device has done all of its part.
void DeviceWork::finish(bool came) {
  std::vector<std::function<void(const Status&)>> callbacks;
  Status status;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    if (came && status_.is_ok()) status_ = look_at_result();
    status = status_;
    callbacks.swap(callbacks_);
  }
  give_back(came && status.is_ok());
  for (const auto& callback : callbacks) callback(status);
  {
    const std::lock_guard lock(mutex_);
    finished_.store(true, std::memory_order_release);  // release: results and callbacks' effects
  }
  changed_.notify_all();
}

// Called while the result should be coming down.
void DeviceWork::look_at_device() {
  {
    const std::lock_guard lock(mutex_);
    if (!coming_down_ || ended_) return;
  }
  const Device::Current current(device());
  const Cu result = device().driver().stream_query(staged_->down());
  if (result == Cu::kSuccess || result == Cu::kNotReady) return;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (status_.is_ok()) status_ = device().check(result, "copying the result down");
  }
  finish(false);
}

void DeviceWork::give_back(bool idle) {
  const Device::Current current(device());
  free_packed(idle);
  give_memory(idle);
  if (flag_) {
    Device::raise(*flag_);
    device().give_flag(*flag_);
  }
}

}  // namespace holdfast::device_comm
