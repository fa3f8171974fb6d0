// A CUDA device made of host memory, behind the same table as the driver's, so that code for GPUs
// is tested where there is none. It is as strict as the driver, or stricter: an address outside the
// device's memory, host memory that is not pinned, a thread without a context, and memory that its
// process has freed are errors. It is late on purpose: nothing on a stream happens before the call
// that enqueued it has returned, so that a missing wait shows up.
//
// It does not model a GPU's speed. It lacks graphs, textures, peer access between devices of one
// process, and events of other processes.
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
  // Time from a call to its first effect.
  Duration lateness = std::chrono::microseconds(100);
  // The kernels that modules hold. Must outlive the driver.
  std::span<const KernelRow> kernels = {};
  // Whether other processes can map memory of mem_alloc(), which is then a file with a guard page
  // for kernels that overrun it. Otherwise memory comes from the heap, where heap checkers see
  // overruns.
  bool exports = false;
};

// Lets tests control the device. Any thread.
class EmulatedControl {
 public:
  virtual ~EmulatedControl() = default;
  // Loses the device: every later call fails with `error`, and enqueued work never happens.
  virtual void fail(Cu error) = 0;
  // Nothing on a stream happens until resume().
  virtual void pause() = 0;
  virtual void resume() = 0;
  // Makes the stream say that it is captured into a graph.
  virtual void set_capturing(CuStream stream, bool capturing) = 0;
  // Whether all enqueued work has happened.
  virtual bool idle() const = 0;
  // Bytes of device memory, and of pinned host memory.
  virtual std::uint64_t device_bytes_used() const = 0;
  virtual std::uint64_t pinned_bytes() const = 0;
  // Bytes copied so far between device and host memory, both ways: the load of a bus.
  virtual std::uint64_t bus_bytes() const = 0;
  // Number of mapped allocations of other processes.
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
