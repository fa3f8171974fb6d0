// Memory of an emulated device that other processes can map: a file without a name, which goes with
// the last process that has it mapped, so that a rank that is killed leaves nothing behind. Its
// handle names the process that made it, and opens no longer when that has freed it or has ended.
// Behind the memory lies a page that cannot be touched: a kernel that runs over it is seen.
// Why: docs/decisions/0090-emulated-memory-has-no-names.md
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/driver.h"

namespace holdfast::device {

class EmulatedShare final {
 public:
  // Owners of either: the device's range, and copies under way. Null where the system has no
  // memory for it.
  static std::shared_ptr<EmulatedShare> make(std::uint64_t machine, std::uint64_t bytes);
  // Null for a handle that nobody made, or whose memory is gone.
  static std::shared_ptr<EmulatedShare> open(const CuIpcMemory& handle);
  ~EmulatedShare();
  EmulatedShare(const EmulatedShare&) = delete;
  EmulatedShare& operator=(const EmulatedShare&) = delete;

  // Who made the memory that a handle is of.
  static std::uint64_t machine_of(const CuIpcMemory& handle);

  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  // Different for each memory, whoever made it.
  std::uint64_t serial() const { return serial_; }
  CuIpcMemory handle() const;
  // By its owner, once; all who have it mapped see it.
  void mark_freed();
  bool freed() const;

 private:
  struct Label;
  EmulatedShare() = default;
  bool map(int file);
  bool is_forked() const;

  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t machine_ = 0;
  std::uint64_t serial_ = 0;
  const pid_t process_ = ::getpid();  // a forked child of it has nothing mapped
  int file_ = -1;                     // the owner's; -1: another process's
  Label* label_ = nullptr;
};

}  // namespace holdfast::device
