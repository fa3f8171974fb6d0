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
  if (const auto at = keys_.find(number); at != keys_.end()) return at->second;
  const auto at = freed_.find(number);
  return at == freed_.end() ? nullptr : at->second.lock();
}

void Keyvals::free(int number) {
  const std::lock_guard lock(mutex_);
  std::erase_if(freed_, [](const auto& entry) { return entry.second.expired(); });
  const auto at = keys_.find(number);
  if (at == keys_.end()) return;
  freed_[number] = at->second;
  keys_.erase(at);
}

int* Keyvals::predefined(int number) {
  if (!is_predefined(number)) return nullptr;
  return &predefined_[static_cast<std::size_t>(number - kTagUb)];
}

}  // namespace holdfast::mpi
