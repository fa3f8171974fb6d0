// Device: one GPU as the runtime uses it: its context, streams, events, and host memory that it can
// reach, all of them pooled. Streams are arguments, events chain work; nothing here waits for the
// device. What costs a synchronisation (pinning, freeing) happens on callers' threads only: the
// runtime's thread enqueues copies and looks at events, so that a stream which waits for an op
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

// Pinned memory that one device has, at most; more is an error of whoever wants it.
inline constexpr std::uint64_t kMostPinned = 64ULL << 30;

// Where host memory to be pinned comes from: null when there is none. Any thread.
struct HostMemory {
  std::function<std::byte*(std::uint64_t bytes)> allocate;
  std::function<void(std::byte* data)> release;
};

// A piece of pinned host memory; `bytes` at least what was asked for.
struct Pinned {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

// A number in pinned memory that rises: streams wait until it has reached `due`. Used again at
// once, with the next number, for whoever still waits waits for less.
struct Flag {
  std::uint32_t* host = nullptr;
  DevicePointer device = 0;
  std::uint32_t due = 0;
};

class Device final {
 public:
  // Retains the primary context, which frameworks use, too. kConfigError for an ordinal that there
  // is not, naming those there are.
  static Result<std::shared_ptr<Device>> open(DriverTable driver, int ordinal, HostMemory host);
  // No stream may use its memory any more.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  // Whether memory is taken and freed in the order of streams, without waiting for any.
  bool has_pools() const { return has_pools_; }
  const CudaDriver& driver() const { return *driver_; }
  const DriverTable& driver_table() const { return driver_; }
  // ok, or `what` on this device failed, in the driver's words.
  Status check(Cu result, std::string_view what) const;

  // The device's context on the calling thread, for as long as this lives.
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

  // All below: in the context (Current) and from any thread, unless said otherwise.

  // Multiprocessors.
  Result<std::uint32_t> processors() const;
  // Not blocked by the default stream, of the highest priority: it shares no queue with streams
  // that wait for it.
  Result<CuStream> make_stream() const;
  // From the pool; or pins memory, which may wait for the device: callers' threads only. kSystem
  // when there is none.
  Result<Pinned> take(std::uint64_t bytes);
  // No context needed.
  void give(Pinned memory);
  // Takes it back when the events have happened; the events, too.
  void give_after(Pinned memory, const std::vector<CuEvent>& events);
  Result<CuEvent> take_event();
  // No context needed.
  void give_event(CuEvent event);
  Result<Flag> take_flag();
  // What was due has come, or nobody waits any more. No context needed.
  void give_flag(const Flag& flag);
  // By the host, where no stream raises it any more. No context needed.
  static void raise(const Flag& flag);

  // Whether streams can wait for a flag; else their callers have to.
  bool streams_wait() const { return streams_wait_; }
  // Makes `second` wait for all that `first` has been given up to now.
  Status order(CuStream first, CuStream second);
  Status copy(DevicePointer to, DevicePointer from, std::uint64_t bytes, CuStream stream) const;
  // In the stream's order, where the device has memory pools. kSystem when it is full, saying how
  // much is left.
  Result<DevicePointer> allocate(std::uint64_t bytes, CuStream stream) const;
  Status release(DevicePointer memory, CuStream stream) const;
  // kConfigError where these bytes are not memory of this device, naming `what` they are of.
  Status check_memory(DevicePointer memory, std::uint64_t bytes, std::string_view what) const;
  // kUnsupported while the stream is captured into a graph, naming `what`.
  Status check_capture(CuStream stream, std::string_view what) const;

  // Of the pool, in use or not. No context needed.
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
  std::map<std::byte*, std::byte*> slabs_;     // pinned: as the host memory gave it
  std::multimap<std::uint64_t, Pinned> idle_;  // by size
  std::vector<LentMemory> lent_;
  std::uint64_t pinned_bytes_ = 0;
  std::vector<CuEvent> events_;
  std::vector<Flag> flags_;
};

}  // namespace holdfast::device
