#include "mpi/core/keyvals.h"

namespace holdfast::mpi {

int Keyvals::create(Kind of, Function copy, Function erase, void* state) {
  const std::lock_guard lock(mutex_);
  if (next_ == kMostKeys) return kKeyvalInvalid;
  const int number = next_++;
  keys_[number] =
      std::make_shared<const AttributeKey>(AttributeKey{number, of, copy, erase, state});
  return number;
}

SharedKey Keyvals::find(int number) const {
  const std::lock_guard lock(mutex_);
  const auto at = keys_.find(number);
  return at == keys_.end() ? nullptr : at->second;
}

bool Keyvals::free(int number) {
  const std::lock_guard lock(mutex_);
  return keys_.erase(number) != 0;
}

int* Keyvals::predefined(int number) {
  if (!is_predefined(number)) return nullptr;
  return &predefined_[static_cast<std::size_t>(number - kTagUb)];
}

}  // namespace holdfast::mpi
