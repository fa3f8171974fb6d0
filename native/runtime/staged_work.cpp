#include "runtime/staged_work.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace holdfast::runtime {
namespace {

using device::Cu;
using device::Device;

// A device that is lost calls nobody: whoever waits asks it now and then.
constexpr Duration kDeviceLook = std::chrono::milliseconds(20);

Instant now() { return {std::chrono::steady_clock::now().time_since_epoch()}; }

// Of an op in slices: what every part of its result has.
void merge(comm::Outcome& all, const comm::Outcome& one, bool first) {
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

}  // namespace

StagedWork::StagedWork(std::shared_ptr<Staged> staged, comm::Collective collective)
    : staged_(std::move(staged)), collective_(collective) {}

StagedWork::~StagedWork() = default;

Device& StagedWork::device() const { return staged_->device(); }

OpSeq StagedWork::sequence() const { return parts_.front().work->sequence(); }

bool StagedWork::done() const { return finished_.load(std::memory_order_acquire); }

Status StagedWork::status() const {
  CHECK(done());
  const std::lock_guard lock(mutex_);
  return status_;
}

Rank StagedWork::source() const { return parts_.front().work->source(); }

const comm::Outcome& StagedWork::outcome() const { return outcome_; }

void StagedWork::tell_wait(comm::OtherWait other) {
  for (const Part& part : parts_) {
    if (part.work != nullptr) part.work->tell_wait(other);
  }
}

void StagedWork::on_done(std::function<void(const Status&)> callback) {
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

Status StagedWork::wait(Duration timeout) {
  const Instant deadline = now() + timeout;
  while (!done()) {
    const Instant look = std::min(deadline, now() + kDeviceLook);
    if (const auto executor = staged_->waker_->lock()) {
      executor->drive_until([this] { return done(); }, look);
    } else {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, std::chrono::steady_clock::time_point(look.since_origin),
                          [this] { return done(); });
    }
    if (done()) break;
    look_at_device();
    if (now() >= deadline) return late(timeout);
  }
  return status();
}

Status StagedWork::late(Duration timeout) const {
  return {Code::kTimeout, std::string(collective_name(collective_)) + " #" +
                              std::to_string(sequence().value) + " is still running after " +
                              std::to_string(std::chrono::duration<double>(timeout).count()) +
                              " s of waiting"};
}

Status StagedWork::wait_on(device::CuStream stream) {
  constexpr Duration kForever = std::chrono::hours(24 * 400);  // the op has a time limit of its own
  if (done()) return status();
  if (!device().streams_wait()) return wait(kForever);
  const Device::Current current(device());
  TRY(current.status());
  TRY(device().check_capture(stream, "waiting for " + std::string(collective_name(collective_))));
  return device().check(device().driver().stream_wait_value32(stream, flag_->device, flag_->due,
                                                              device::kWaitGreaterOrEqual),
                        "making a stream wait");
}

void StagedWork::on_part(std::size_t part, const Status& status) {
  // Parts may end on several threads at a time; whoever is last goes on.
  Status copied = status;
  if (status.is_ok()) copied = copy_down(parts_[part]);
  {
    const std::lock_guard lock(mutex_);
    if (copied.is_ok()) merge(outcome_, parts_[part].work->outcome(), !any_outcome_);
    any_outcome_ = any_outcome_ || copied.is_ok();
    if (status_.is_ok()) status_ = copied;
    if (--running_ > 0) return;
  }
  // An op that fails ends there, too: slices of it may be on their way into the caller's memory.
  if (!end_on_device().is_ok()) end_on_host();
}

Status StagedWork::copy_down(const Part& part) {
  const Device::Current current(device());
  TRY(current.status());
  for (const Copy& copy : part.down) {
    TRY(device().copy(copy.device, reinterpret_cast<device::DevicePointer>(copy.host), copy.bytes,
                      staged_->down_));
  }
  return Status::ok();
}

// The result is on its way down: the rest follows it there.
Status StagedWork::end_on_device() {
  const Device::Current current(device());
  Status enqueued = current.status();
  const device::Driver& d = device().driver();
  if (enqueued.is_ok()) enqueued = unpack();
  if (enqueued.is_ok() && device().streams_wait()) {
    enqueued = device().check(d.stream_write_value32(staged_->down_, flag_->device, flag_->due, 0),
                              "writing a value");
  }
  if (enqueued.is_ok()) {
    auto* held = new std::shared_ptr<StagedWork>(shared_from_this());
    const Cu told = d.launch_host_func(staged_->down_, came_down, held);
    if (told != Cu::kSuccess) delete held;
    enqueued = device().check(told, "enqueueing a call");
  }
  const std::lock_guard lock(mutex_);
  coming_down_ = enqueued.is_ok();
  if (status_.is_ok()) status_ = enqueued;
  return enqueued;
}

// Behind the copies down of all parts; of an op that has failed, nothing.
Status StagedWork::unpack() {
  {
    const std::lock_guard lock(mutex_);
    if (!status_.is_ok()) return Status::ok();
  }
  for (const Packed& packed : packed_) {
    if (packed.written()) TRY(packed.unpack(staged_->kernels(), staged_->down_));
  }
  return Status::ok();
}

// As give_memory(). A device that is lost has taken it along, whatever these say.
void StagedWork::free_packed(bool idle) {
  if (packed_.empty()) return;
  [[maybe_unused]] Status status;
  if (!idle) status = device().order(staged_->up_, staged_->down_);
  for (const Packed& packed : packed_) status = packed.release(device(), staged_->down_);
  packed_.clear();
}

// On a thread of the driver's, which must not be held up.
void StagedWork::came_down(void* held) {
  const std::unique_ptr<std::shared_ptr<StagedWork>> work(
      static_cast<std::shared_ptr<StagedWork>*>(held));
  finish_soon(std::move(*work), true);
}

// On the runtime's thread, with the runtime released, as all ops end.
void StagedWork::finish_soon(std::shared_ptr<StagedWork> work, bool came) {
  auto executor = work->staged_->waker_->lock();
  if (executor == nullptr) return work->finish(came);
  comm::Executor* runs = executor.get();
  // The task keeps the runtime: it must not end on a thread of the driver's.
  runs->submit(
      [executor = std::move(executor), came, work = std::move(work)]() mutable {
        executor->defer([came, work = std::move(work)] { work->finish(came); });
      },
      true);
}

// Nothing more comes down; streams that wait are set free.
void StagedWork::end_on_host() {
  Device::raise(*flag_);
  finish_soon(shared_from_this(), false);
}

// `came`: the device has done all of its part.
void StagedWork::finish(bool came) {
  std::vector<std::function<void(const Status&)>> callbacks;
  Status status;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    status = status_;
    callbacks.swap(callbacks_);
  }
  give_memory(came && status.is_ok());
  for (const auto& callback : callbacks) callback(status);
  {
    const std::lock_guard lock(mutex_);
    finished_.store(true, std::memory_order_release);  // release: results and callbacks' effects
  }
  changed_.notify_all();
}

// Once. `idle`: no copy is under way; else it comes back when those that are have ended.
void StagedWork::give_memory(bool idle) {
  const Device::Current current(device());
  free_packed(idle);
  for (Part& part : parts_) {
    std::vector<device::CuEvent> pending;
    if (part.arrived) pending.push_back(*part.arrived);
    if (idle) {
      for (const device::CuEvent event : pending) device().give_event(event);
      device().give(part.memory);
      continue;
    }
    if (auto down = device().take_event(); down.is_ok()) {
      [[maybe_unused]] const Cu recorded =
          device().driver().event_record(down.value(), staged_->down_);
      pending.push_back(down.value());
    }
    device().give_after(part.memory, pending);
  }
  if (flag_) {
    Device::raise(*flag_);
    device().give_flag(*flag_);
  }
}

// While the result should be coming down.
void StagedWork::look_at_device() {
  {
    const std::lock_guard lock(mutex_);
    if (!coming_down_ || ended_) return;
  }
  const Device::Current current(device());
  const Cu result = device().driver().stream_query(staged_->down_);
  if (result == Cu::kSuccess || result == Cu::kNotReady) return;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (status_.is_ok()) status_ = device().check(result, "copying the result down");
  }
  finish(false);
}

}  // namespace holdfast::runtime
