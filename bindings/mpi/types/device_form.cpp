#include "mpi/types/device_form.h"

#include <utility>

namespace holdfast::mpi {

Result<std::shared_ptr<const device_comm::DeviceLayout>> DeviceForm::get(
    const std::shared_ptr<device_comm::Staged>& staged, const datatype::TypeLayout& layout,
    std::int64_t count) {
  const std::lock_guard lock(mutex_);
  if (made_ && count_ == count && &made_->staged() == staged.get()) return made_;
  auto made = device_comm::DeviceLayout::make(staged, layout, count);
  if (!made.is_ok()) return made.status();
  count_ = count;
  made_ = std::move(made).value();
  return made_;
}

}  // namespace holdfast::mpi
