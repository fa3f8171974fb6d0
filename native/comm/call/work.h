// Work: the caller's handle of one op in flight. Owners: the caller and the engine, until the op
// has ended.
#pragma once

#include <functional>

#include "base/result.h"
#include "base/types.h"
#include "comm/call/outcome.h"
#include "comm/schedule/collective.h"

namespace holdfast::comm {

// Waits of a caller for something that the op's end brings about, such as a Future.
enum class OtherWait : std::uint8_t {
  kNone,
  kUnknown,  // there may be one, of unknown length
  kWhole,    // from the op's start to its end
};

class Work {
 public:
  virtual ~Work() = default;

  virtual Collective collective() const = 0;  // any thread
  virtual OpSeq sequence() const = 0;         // any thread

  // Whether the op has ended, well or badly. Any thread; never blocks.
  virtual bool done() const = 0;
  // The outcome; CHECKs that done(). Any thread.
  virtual Status status() const = 0;
  // recv: the rank whose message came; -1 for everything else. Once done().
  virtual Rank source() const = 0;
  // Collectives: which ranks' data the result has. Once done(), and well.
  virtual const Outcome& outcome() const = 0;
  // Blocks at most `timeout`, lending the calling thread to the runtime. Code::kTimeout leaves the
  // op running. Any thread; Python callers release the GIL first.
  virtual Status wait(Duration timeout) = 0;
  // Tells what is known of waits for the op other than its wait(). Any thread.
  virtual void tell_wait([[maybe_unused]] OtherWait other) {}
  // Calls `callback` exactly once when the op has ended (at once when it has), from whichever
  // thread ended it, with no lock of the runtime held. After it ran, done() is true.
  virtual void on_done(std::function<void(const Status&)> callback) = 0;
};

}  // namespace holdfast::comm
