// Execution: one op in flight, whatever carries it: messages over links (Run) or slices in shared
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

  // One is made for every op: `new (recycler) Run(...)`. The recycler outlives it.
  static void* operator new(std::size_t bytes, Recycler& recycler);
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory);
  static void operator delete(void* memory, Recycler& recycler);

  // Does a piece of what can be done now. Cheap when nothing was touched.
  virtual void advance() = 0;
  // Whether there may be something to do.
  virtual bool touched() const = 0;
  virtual bool finished() const = 0;
  virtual const Status& failure() const = 0;
  bool failed() const { return !failure().is_ok(); }
  virtual Rank failed_peer() const = 0;
  virtual std::vector<Rank> waited_for() const = 0;
  // What has got its final value so far, piece by piece: a result is filled from the front of each
  // piece, in whole elements.
  struct HeldPiece {
    const std::byte* data = nullptr;
    std::uint64_t bytes = 0;
  };
  virtual std::vector<HeldPiece> held() const = 0;
  // What it sends as frames; where their sizes depend on the data, known when it has finished.
  virtual EncodedBytes encoded() const { return {}; }
  // Ends it where it is: afterwards nothing refers to the op's memory. Returns its scratch memory.
  virtual BufferPool::Buffer stop() = 0;
};

}  // namespace holdfast::comm
