#include "secure/secret.h"

#include <string.h>

#include <algorithm>

namespace holdfast::secure {

void wipe(std::span<std::byte> bytes) {
  if (!bytes.empty()) explicit_bzero(bytes.data(), bytes.size());
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  // Volatile, so that no compiler ends the loop at the first difference.
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | std::to_integer<int>(a[i] ^ b[i]));
  }
  return difference == 0;
}

Secret::Secret(std::span<const std::byte, kSecretBytes> bytes) : bytes_{} {
  std::ranges::copy(bytes, bytes_.begin());
}

Secret::~Secret() { wipe(bytes_); }

Secret::Secret(Secret&& other) noexcept : bytes_(other.bytes_) { wipe(other.bytes_); }

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    bytes_ = other.bytes_;
    wipe(other.bytes_);
  }
  return *this;
}

}  // namespace holdfast::secure
