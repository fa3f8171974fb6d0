// A CUDA device made of host memory, behind the same table as the driver's: what uses a GPU is
// tested where there is none. It is as strict as the driver, or stricter: an address that is not
// of the device, host memory that is not pinned, a thread without a context, memory of another
// process that has freed it are errors. And it is late on purpose: nothing on a stream happens
// before the call that enqueued it has returned, so that a wait that is missing is seen.
//
// Not a model of a GPU's speed. Not there: graphs, textures, peer access between devices of one
// process, events of other processes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/types.h"
#include "device/driver.h"
#include "device/kernel.h"

namespace holdfast::device {

struct EmulatedSettings {
  int devices = 1;
  std::uint64_t memory_bytes = 256ULL << 20;  // of each device
  // From a call to its first effect.
  Duration lateness = std::chrono::microseconds(100);
  // Of what modules hold. Must outlive the driver.
  std::span<const KernelRow> kernels = {};
  // Whether other processes can map its memory (mem_alloc()'s; pages of a file, each a kernel's
  // limit). Without, memory is the heap's, and tools that look at the heap see who runs over it.
  bool exports = false;
};

// What tests do to the device. Any thread.
class EmulatedControl {
 public:
  virtual ~EmulatedControl() = default;
  // Every later call fails with this, and what is enqueued never happens: a device that is lost.
  virtual void fail(Cu error) = 0;
  // Nothing on a stream happens until resume().
  virtual void pause() = 0;
  virtual void resume() = 0;
  // The stream says that it is captured into a graph.
  virtual void set_capturing(CuStream stream, bool capturing) = 0;
  // Whether all that was enqueued has happened.
  virtual bool idle() const = 0;
  // Of device memory; and of host memory that is pinned.
  virtual std::uint64_t device_bytes_used() const = 0;
  virtual std::uint64_t pinned_bytes() const = 0;
  // Copied so far between device memory and the host's, either way: what a bus would have carried.
  virtual std::uint64_t bus_bytes() const = 0;
  // Allocations of other processes that are mapped.
  virtual std::size_t imported() const = 0;
};

struct EmulatedDriver {
  DriverTable table;
  // Owners: this, the table, and the device's thread.
  std::shared_ptr<EmulatedControl> control;
};

// Starts the device's thread, which ends with the last copy of the table.
EmulatedDriver make_emulated_driver(const EmulatedSettings& settings);

}  // namespace holdfast::device
