// Peer memory: reading another process's memory where it lies, by cross-memory attach. One copy,
// made by the reader, where shared memory takes two. The peer says what it exposes and takes that
// back before it uses the memory again; nobody writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace holdfast::comm {

// What a process says of itself: a number that only it has, and where it lies. Readers fetch it
// with every read, so that another process that got the same id is found out.
struct MemoryOwner {
  std::uint64_t process = 0;
  std::uint64_t address = 0;
  std::uint64_t nonce = 0;

  static MemoryOwner self();
};

class ProcessMemory {
 public:
  virtual ~ProcessMemory() = default;
  // False when not all of it could be read: the process has gone, or the system does not allow it.
  virtual bool read(std::byte* to, std::uint64_t address, std::uint64_t bytes) const = 0;
};

// Null where the system does not let this process read that one's memory.
std::shared_ptr<ProcessMemory> reach_memory(const MemoryOwner& owner);

}  // namespace holdfast::comm
