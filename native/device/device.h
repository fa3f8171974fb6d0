// Device: one GPU as the runtime uses it: its context, streams, events, and host memory that it can
// reach; events and memory are pooled. Streams are arguments, events chain work; nothing here waits
// for the device. Calls that may synchronise (pinning, freeing) happen on callers' threads only:
// the runtime's thread enqueues copies and polls events, so that a stream which waits for an op
// cannot hold up the op.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/driver.h"

namespace holdfast::device {

// Limit of pinned memory per device; take() fails beyond it.
inline constexpr std::uint64_t kMostPinned = 64ULL << 30;

// Source of the host memory to pin; allocate() returns null when there is none. Any thread.
struct HostMemory {
  std::function<std::byte*(std::uint64_t bytes)> allocate;
  std::function<void(std::byte* data)> release;
};

// A piece of pinned host memory; `bytes` may be more than was asked for.
struct Pinned {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

// A rising number in pinned memory: streams wait until it has reached `due`. A flag is reused at
// once, with the next number: a stream that still waits, waits for a lower one.
struct Flag {
  std::uint32_t* host = nullptr;
  DevicePointer device = 0;
  std::uint32_t due = 0;
};

class Device final {
 public:
  // Retains the primary context, which frameworks use, too. kConfigError for an unknown ordinal;
  // the message names the known ones.
  static Result<std::shared_ptr<Device>> open(DriverTable driver, int ordinal, HostMemory host);
  // No stream may still use its memory.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  // Whether memory can be allocated and freed in stream order, without waiting for a stream.
  bool has_pools() const { return has_pools_; }
  const CudaDriver& driver() const { return *driver_; }
  const DriverTable& driver_table() const { return driver_; }
  // ok, or an error that says in the driver's words that `what` failed on this device.
  Status check(Cu result, std::string_view what) const;

  // Makes the device's context current on the calling thread, for as long as this lives.
  class Current {
   public:
    explicit Current(const Device& device);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    const Status& status() const { return status_; }

   private:
    const Device& device_;
    CuContext before_;
    bool changed_ = false;
    Status status_;
  };

  // Call all below in the context (Current), from any thread, unless said otherwise.

  // Number of multiprocessors.
  Result<std::uint32_t> processors() const;
  // A stream that the default stream does not block, of the highest priority, so that it shares no
  // queue with streams that wait for it.
  Result<CuStream> make_stream() const;
  // Takes pinned memory from the pool, or pins more, which may wait for the device: callers'
  // threads only. kSystem when there is none.
  Result<Pinned> take(std::uint64_t bytes);
  // No context needed.
  void give(Pinned memory);
  // Returns the memory and the events to their pools when the events have happened.
  void give_after(Pinned memory, const std::vector<CuEvent>& events);
  Result<CuEvent> take_event();
  // No context needed.
  void give_event(CuEvent event);
  Result<Flag> take_flag();
  // Returns a flag that has reached `due`, or that no stream waits for any more. No context needed.
  void give_flag(const Flag& flag);
  // Sets the flag to `due` from the host, when no stream raises it any more. No context needed.
  static void raise(const Flag& flag);

  // Whether streams can wait for a flag; else the calling threads have to.
  bool streams_wait() const { return streams_wait_; }
  // Makes `second` wait for all work enqueued on `first` up to now.
  Status order(CuStream first, CuStream second);
  Status copy(DevicePointer to, DevicePointer from, std::uint64_t bytes, CuStream stream) const;
  // Allocates in stream order where the device has memory pools. kSystem when the device is full;
  // the message says how much is left.
  Result<DevicePointer> allocate(std::uint64_t bytes, CuStream stream) const;
  Status release(DevicePointer memory, CuStream stream) const;
  // kConfigError when these bytes are not memory of this device; the message names `what`.
  Status check_memory(DevicePointer memory, std::uint64_t bytes, std::string_view what) const;
  // kUnsupported while the stream is captured into a graph; the message names `what`.
  Status check_capture(CuStream stream, std::string_view what) const;

  // Bytes of the pool, in use or not. No context needed.
  std::uint64_t pinned_bytes() const;

 private:
  struct LentMemory {
    Pinned memory;
    std::vector<CuEvent> events;
  };

  Device(DriverTable driver, HostMemory host, int ordinal)
      : driver_(std::move(driver)), host_(std::move(host)), ordinal_(ordinal) {}
  Status start();
  Status probe_waits();
  Result<Pinned> pin(std::uint64_t bytes);
  Status add_flags();
  void take_back();
  void trim();

  const DriverTable driver_;
  const HostMemory host_;
  const int ordinal_;
  DeviceId id_ = 0;
  CuContext context_;
  std::string name_;
  bool has_pools_ = false;
  bool streams_wait_ = false;

  mutable std::mutex mutex_;                   // guards all below
  std::map<std::byte*, std::byte*> slabs_;     // pinned address -> address that HostMemory gave
  std::multimap<std::uint64_t, Pinned> idle_;  // by size
  std::vector<LentMemory> lent_;
  std::uint64_t pinned_bytes_ = 0;
  std::vector<CuEvent> events_;
  std::vector<Flag> flags_;
};

}  // namespace holdfast::device
