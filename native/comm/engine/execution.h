// Execution: one op in flight, whether it moves as messages over links (Run) or as slices in shared
// memory (SliceRun). Thread: only the holder of the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/recycler.h"
#include "base/result.h"
#include "comm/engine/buffer_pool.h"
#include "comm/observer.h"

namespace holdfast::comm {

class Execution {
 public:
  virtual ~Execution() = default;

  // One execution is made for every op: `new (recycler) Run(...)`. The recycler outlives the
  // execution.
  static void* operator new(std::size_t bytes, Recycler& recycler);
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory);
  static void operator delete(void* memory, Recycler& recycler);

  // Does some of the work that is possible now. The call is cheap when nothing was touched.
  virtual void advance() = 0;
  // Whether there may be something to do.
  virtual bool touched() const = 0;
  virtual bool finished() const = 0;
  virtual const Status& failure() const = 0;
  bool failed() const { return !failure().is_ok(); }
  virtual Rank failed_peer() const = 0;
  virtual std::vector<Rank> waited_for() const = 0;
  // A piece of the result: its first `bytes` bytes hold their final value. Pieces are filled from
  // the front, in whole elements.
  struct HeldPiece {
    const std::byte* data = nullptr;
    std::uint64_t bytes = 0;
  };
  virtual std::vector<HeldPiece> held() const = 0;
  // How much the op sends as frames; final only when it has finished if their sizes depend on the
  // data.
  virtual EncodedBytes encoded() const { return {}; }
  // Ends the op where it is: afterwards nothing refers to the op's memory. Returns its scratch
  // memory.
  virtual BufferPool::Buffer stop() = 0;
};

}  // namespace holdfast::comm
