#include "mpi/types/device_form.h"

#include <utility>

namespace holdfast::mpi {

Result<std::shared_ptr<const device_comm::DeviceLayout>> DeviceForm::get(
    const std::shared_ptr<device_comm::Staged>& staged, const datatype::TypeLayout& layout,
    std::int64_t count) {
  const std::lock_guard lock(mutex_);
  for (const CountedForm& form : kept_) {
    const bool fits = form.layout && form.count == count;
    if (fits && &form.layout->staged() == staged.get()) return form.layout;
  }
  auto made = device_comm::DeviceLayout::make(staged, layout, count, {});
  if (!made.is_ok()) return made.status();
  CountedForm& form = kept_[next_];
  next_ = (next_ + 1) % kept_.size();
  form = {count, std::move(made).value()};
  return form.layout;
}

}  // namespace holdfast::mpi
