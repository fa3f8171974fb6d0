// 32 secret bytes: the secret of a run, or a token's key. It wipes itself, moves and is never
// copied or printed; comparing takes the same time whatever the bytes are.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace holdfast::secure {

inline constexpr std::size_t kSecretBytes = 32;

// Overwrites memory such that no compiler leaves it out. Any thread.
void wipe(std::span<std::byte> bytes);

// Whether all bytes are the same, in a time that depends on the sizes alone. Any thread.
bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b);

// One thread at a time.
class Secret {
 public:
  explicit Secret(std::span<const std::byte, kSecretBytes> bytes);
  ~Secret();
  // What was moved from is wiped.
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  // For a key derivation, or a caller that writes it to its file.
  std::span<const std::byte, kSecretBytes> bytes() const { return bytes_; }
  bool same(const Secret& other) const { return same_bytes(bytes_, other.bytes_); }
  Secret copy() const { return Secret(bytes_); }

 private:
  std::array<std::byte, kSecretBytes> bytes_;
};

}  // namespace holdfast::secure
