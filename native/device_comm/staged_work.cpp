#include "device_comm/staged_work.h"

#include "device_comm/staged.h"

namespace holdfast::device_comm {

using device::Device;

StagedWork::StagedWork(std::shared_ptr<Staged> staged, comm::Collective collective)
    : DeviceWork(std::move(staged), collective) {}

StagedWork::~StagedWork() = default;

OpSeq StagedWork::sequence() const { return parts_.front().work->sequence(); }

Rank StagedWork::source() const { return parts_.front().work->source(); }

void StagedWork::tell_wait(comm::OtherWait other) {
  for (const StagedPart& part : parts_) {
    if (part.work != nullptr) part.work->tell_wait(other);
  }
}

void StagedWork::on_part(std::size_t part, const Status& status) {
  // Parts may end on several threads at a time; the thread of the last part goes on.
  Status copied = status;
  if (status.is_ok()) copied = copy_down(parts_[part]);
  {
    const std::lock_guard lock(mutex_);
    if (copied.is_ok()) merge(outcome_, parts_[part].work->outcome(), !any_outcome_);
    any_outcome_ = any_outcome_ || copied.is_ok();
    if (status_.is_ok()) status_ = copied;
    if (--running_ > 0) return;
  }
  end();
}

Status StagedWork::copy_down(const StagedPart& part) {
  const Device::Current current(device());
  TRY(current.status());
  if (reads_first_) {
    const device::Cu waits =
        device().driver().stream_wait_event(staged_->down(), *parts_.back().arrived, 0);
    TRY(device().check(waits, "waiting for an event"));
  }
  for (const StagedCopy& copy : part.copies.down) {
    TRY(device().copy(copy.device, reinterpret_cast<device::DevicePointer>(copy.host), copy.bytes,
                      staged_->down()));
  }
  return Status::ok();
}

void StagedWork::give_memory(bool idle) {
  for (StagedPart& part : parts_) {
    std::vector<device::CuEvent> pending;
    if (part.arrived) pending.push_back(*part.arrived);
    if (idle) {
      for (const device::CuEvent event : pending) device().give_event(event);
      device().give(part.memory);
      continue;
    }
    if (auto down = device().take_event(); down.is_ok()) {
      [[maybe_unused]] const device::Cu recorded =
          device().driver().event_record(down.value(), staged_->down());
      pending.push_back(down.value());
    }
    device().give_after(part.memory, pending);
  }
}

}  // namespace holdfast::device_comm
