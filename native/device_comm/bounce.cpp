#include "device_comm/bounce.h"

#include <algorithm>
#include <new>

#include "base/copy.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

using device::Cu;
using device::Device;

Result<comm::OpRequest> Bounce::bind(const comm::OpRequest& request, Rank rank) {
  StagedBinding binding;
  const std::uint64_t bytes = binding.plan(request);
  memory_.reset(new (std::nothrow) std::byte[std::max<std::uint64_t>(bytes, 1)]);
  if (memory_ == nullptr) {
    return Status(Code::kSystem, "no host memory for " + std::to_string(bytes) + " bytes");
  }
  all_ = binding.copies(request, memory_.get(), rank);
  return binding.bind(request, memory_.get());
}

void Bounce::start(Direction way, std::function<void(const Status&)> ended) {
  {
    const std::lock_guard lock(mutex_);
    state_.reset();
  }
  way_ = way;
  copies_ = way == Direction::kUp ? all_.up : all_.down;
  at_ = 0;
  offset_ = 0;
  pending_ = 0;
  ended_ = std::move(ended);
  step();
}

void Bounce::step() {
  if (pending_ > 0) {
    const StagedCopy& copy = copies_[at_];
    if (way_ == Direction::kUp) copy_bytes(copy.host + offset_, piece_.data, pending_);
    offset_ += std::exchange(pending_, 0);
    if (offset_ == copy.bytes) {
      ++at_;
      offset_ = 0;
    }
  }
  if (at_ == copies_.size()) return finish(Status::ok());
  if (const Status enqueued = enqueue(); !enqueued.is_ok()) finish(enqueued);
}

Status Bounce::enqueue() {
  Device& device = staged_->device();
  const Device::Current current(device);
  TRY(current.status());
  const StagedCopy& copy = copies_[at_];
  pending_ = std::min(piece_.bytes, copy.bytes - offset_);
  if (way_ == Direction::kDown) copy_bytes(piece_.data, copy.host + offset_, pending_);
  const device::DevicePointer there = copy.device + offset_;
  const device::DevicePointer here = address(piece_.data);
  const bool up = way_ == Direction::kUp;
  TRY(device.copy(up ? here : there, up ? there : here, pending_, staged_->down()));
  auto* held = new std::shared_ptr<Bounce>(shared_from_this());
  const Cu told = device.driver().launch_host_func(staged_->down(), came, held);
  if (told != Cu::kSuccess) delete held;
  return device.check(told, "enqueueing a call");
}

// Runs on a thread of the driver, which must not be held up.
void Bounce::came(void* held) {
  const std::unique_ptr<std::shared_ptr<Bounce>> kept(static_cast<std::shared_ptr<Bounce>*>(held));
  auto executor = (*kept)->staged_->executor();
  if (executor == nullptr) return;
  comm::Executor* runs = executor.get();
  // The task keeps the runtime: the runtime must not end on a thread of the driver.
  runs->submit(
      [executor = std::move(executor), bounce = std::move(*kept)]() mutable {
        executor->defer([bounce = std::move(bounce)] { bounce->step(); });
      },
      true);
}

void Bounce::finish(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    state_ = status;
  }
  // The callback may hold the owner of this object.
  std::exchange(ended_, nullptr)(status);
}

std::optional<Status> Bounce::state() {
  {
    const std::lock_guard lock(mutex_);
    if (state_) return state_;
  }
  const Device& device = staged_->device();
  const Device::Current current(device);
  if (!current.status().is_ok()) return current.status();
  const Cu result = device.driver().stream_query(staged_->down());
  if (result == Cu::kSuccess || result == Cu::kNotReady) return std::nullopt;
  return device.check(result, "copying the input up");
}

}  // namespace holdfast::device_comm
