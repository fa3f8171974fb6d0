// Process memory: reads another process's memory where it lies, by cross-memory attach. The reader
// makes one copy, where shared memory takes two. The peer says which memory it exposes, and
// withdraws it before it uses the memory again; no process writes another's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace holdfast::comm {

// Identifies the process that owns memory: it has a number that no other process has, and says
// where the number lies. Readers fetch the number with every read, to detect another process that
// got the same id.
struct MemoryOwner {
  std::uint64_t process = 0;
  std::uint64_t address = 0;
  std::uint64_t nonce = 0;

  static MemoryOwner self();
};

class ProcessMemory {
 public:
  virtual ~ProcessMemory() = default;
  // False when not all bytes could be read: the process has gone, or the system does not allow it.
  virtual bool read(std::byte* to, std::uint64_t address, std::uint64_t bytes) const = 0;
};

// Gives access to the memory of a process; null where the system does not let this process read it.
std::shared_ptr<ProcessMemory> reach_memory(const MemoryOwner& owner);

}  // namespace holdfast::comm
