// Memory pool: memory for tensors that the other processes of the host can map, so that they read
// it where it lies, without a system call and without a copy on the way. Its owner lists in a
// directory what there is to map; a reader maps an arena when it first needs it. Mapped memory
// outlives its owner: a rank that dies leaves its input readable.
//
// No process writes another's pool. The exchanges decide when memory may be read.
// Why: docs/decisions/0042-pooled-memory-is-lent.md
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/transport/segment.h"

namespace holdfast::comm {

// Limits of one process's arenas. Each new arena is at least as large as all before it together,
// until that is kLargestStep.
inline constexpr std::uint32_t kMaxArenas = 64;
inline constexpr std::uint64_t kSmallestArena = 64ULL << 20;
inline constexpr std::uint64_t kLargestStep = 4ULL << 30;

// Lists what a process lends, in an area that it shares with the others.
struct PoolDirectory {
  struct LentArena {
    char name[200];
    std::uint64_t bytes;
  };
  std::atomic<std::uint32_t> count;
  LentArena arenas[kMaxArenas];
};

// A place in a pool.
struct PoolPlace {
  std::uint32_t arena = 0;  // number, from 1 on; 0: in no arena
  std::uint64_t offset = 0;
};

// A process's own pool, as the exchanges see it.
class OwnPool {
 public:
  virtual ~OwnPool() = default;
  // The place of the memory; arena 0 if it is not in the pool. Writes its arena into the directory
  // if it is not there. Any thread.
  virtual PoolPlace find(const std::byte* data, std::uint64_t bytes, PoolDirectory& directory) = 0;
};

// The pool of another process.
class PeerPool {
 public:
  virtual ~PeerPool() = default;
  // The address of a place, mapped here; null where it cannot be mapped. `place` and the directory
  // come from the other process and are not trusted. Holder of the runtime only.
  virtual const std::byte* at(const PoolDirectory& directory, const PoolPlace& place,
                              std::uint64_t bytes) = 0;
};

class MemoryPool final : public OwnPool {
 public:
  MemoryPool();
  ~MemoryPool() override;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Returns uninitialised memory, aligned to 64 bytes. Where the system has no shared memory left
  // (or the pool no arena), it is private memory, which works as well but is slower. Null: there is
  // no private memory either, or this is a forked child, which can only read what its parent had.
  // Any thread.
  std::byte* allocate(std::uint64_t bytes);
  // Frees memory that allocate() gave; does nothing in a forked child. Any thread.
  void release(std::byte* data);
  // Removes the names of all arenas, so that no process can map any more of them; for the end of
  // the process. Any thread.
  void unlink();
  PoolPlace find(const std::byte* data, std::uint64_t bytes, PoolDirectory& directory) override;

 private:
  struct Arena {
    Segment segment;
    std::map<std::uint64_t, std::uint64_t> free;  // by offset: bytes free there
  };
  std::byte* take(Arena& arena, std::uint64_t bytes);
  bool is_forked() const;
  bool add_arena(std::uint64_t bytes);
  Arena* arena_of(const std::byte* data);

  std::mutex mutex_;  // guards all below
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::map<std::byte*, std::uint64_t> used_;  // bytes of each
  std::uint64_t total_ = 0;
  const std::uint64_t process_;
};

std::shared_ptr<PeerPool> make_peer_pool();

}  // namespace holdfast::comm
