// Memory of an emulated device that other processes can map: a file without a name, which vanishes
// with the last process that has it mapped, so that a killed rank leaves nothing behind. Its handle
// names the process that made it, and cannot be opened after that process has freed the memory or
// ended. An inaccessible page follows the memory, so that a kernel that overruns it is seen.
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
  // Owners of the result of make() and open(): the device's range, and copies under way. Null when
  // the system has no memory for it.
  static std::shared_ptr<EmulatedShare> make(std::uint64_t machine, std::uint64_t bytes);
  // Null for an invalid handle, or one whose memory is gone.
  static std::shared_ptr<EmulatedShare> open(const CuIpcMemory& handle);
  ~EmulatedShare();
  EmulatedShare(const EmulatedShare&) = delete;
  EmulatedShare& operator=(const EmulatedShare&) = delete;

  // Number of the machine that made the handle's memory.
  static std::uint64_t machine_of(const CuIpcMemory& handle);

  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  // Unique among the shares of all processes.
  std::uint64_t serial() const { return serial_; }
  CuIpcMemory handle() const;
  // Called once, by the owner; every process that has the memory mapped sees it.
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
  const pid_t process_ = ::getpid();  // a forked child has nothing mapped
  int file_ = -1;                     // -1: the memory is another process's
  Label* label_ = nullptr;
};

}  // namespace holdfast::device
