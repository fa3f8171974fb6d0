// The inside of the emulated device: memory as a map of ranges, and streams as queues that one
// thread works off. emulated_driver.cpp builds the driver's functions on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "device/emulated_driver.h"
#include "device/emulated_share.h"

namespace holdfast::device {

class EmulatedMachine final : public EmulatedControl {
 public:
  explicit EmulatedMachine(const EmulatedSettings& settings);
  ~EmulatedMachine() override;
  EmulatedMachine(const EmulatedMachine&) = delete;
  EmulatedMachine& operator=(const EmulatedMachine&) = delete;

  // One step of a stream: returns nullopt while it cannot finish, else its result. Called without
  // the lock.
  using StreamStep = std::function<std::optional<Cu>()>;
  enum class Memory : std::uint8_t { kDevice, kPinned, kRegistered, kImported };
  struct MemoryRange {
    Memory kind{};
    DeviceId device = 0;
    std::uint64_t bytes = 0;
    std::shared_ptr<std::byte[]> owned;  // null: caller's. Owners: the map, enqueued copies
    std::shared_ptr<EmulatedShare> share = nullptr;  // in place of `owned`; same owners
    std::uint64_t number = 0;                        // unique per allocation
    int opened = 0;                                  // kImported: how many times
    bool leaving = false;                            // a stream will free it
    bool on_device() const { return kind == Memory::kDevice || kind == Memory::kImported; }
  };
  // A place in a stream. A wait for an event is for its latest record at that moment, even if the
  // event is recorded again later.
  struct EventRecord {
    bool reached = false;
    Duration at{};
  };
  struct EmulatedEvent {
    std::shared_ptr<EventRecord> latest;  // null: never recorded
  };

  // EmulatedControl.
  void fail(Cu error) override;
  void pause() override;
  void resume() override;
  void set_capturing(CuStream stream, bool capturing) override;
  bool idle() const override;
  std::uint64_t device_bytes_used() const override;
  std::uint64_t pinned_bytes() const override;
  std::uint64_t bus_bytes() const override { return bus_bytes_.load(); }
  std::size_t imported() const override;

  void count_bus(std::uint64_t bytes) { bus_bytes_ += bytes; }

  const EmulatedSettings& settings() const { return settings_; }
  Cu failure() const;

  // The context that is current on the calling thread; -1: none.
  DeviceId current() const;
  void set_current(DeviceId device);

  // Fills the memory with a pattern, so that a read before the first write shows up. `shared`:
  // other processes can map it.
  Cu allocate(Memory kind, std::uint64_t bytes, bool shared, DevicePointer& at);
  // These three map memory of one process in another.
  Cu export_memory(DevicePointer at, CuIpcMemory& handle) const;
  Cu import_memory(const CuIpcMemory& handle, DevicePointer& at);
  Cu close_memory(DevicePointer at);
  Cu adopt(void* host, std::uint64_t bytes);
  Cu release(DevicePointer at, Memory kind);
  // Releases when the stream reaches this step. The bytes count as free at once: the driver makes
  // the next allocation wait for the release, on any stream.
  Cu release_later(DevicePointer at, CuStream stream);
  // The range that holds all these bytes; nullopt when none does.
  std::optional<std::pair<DevicePointer, MemoryRange>> find(DevicePointer at,
                                                            std::uint64_t bytes) const;

  CuStream make_stream();
  Cu destroy_stream(CuStream stream);
  Cu enqueue(CuStream stream, StreamStep step);
  Cu query(CuStream stream);
  Cu synchronize(CuStream stream);
  bool is_capturing(CuStream stream) const;

  CuEvent make_event();
  Cu destroy_event(CuEvent event);
  Cu record(CuEvent event, CuStream stream);
  Cu query(CuEvent event) const;
  Cu synchronize(CuEvent event);
  Cu wait(CuStream stream, CuEvent event);
  Cu elapsed(float* ms, CuEvent from, CuEvent to) const;

 private:
  struct Item {
    Instant not_before;
    StreamStep step;
  };
  struct Stream {
    std::deque<Item> items;
    bool running = false;
    bool capturing = false;
    bool doomed = false;  // destroyed once it is empty
    bool idle() const { return items.empty() && !running; }
  };

  void thread_main();
  // Returns whether any step ended; `next`: when to try again.
  bool turn(std::unique_lock<std::mutex>& lock, Instant& next);
  // 0 and the two default handles are one stream.
  std::shared_ptr<Stream> stream_of(CuStream stream) const;
  std::shared_ptr<EmulatedEvent> event_of(CuEvent event) const;

  const EmulatedSettings settings_;
  const std::uint64_t number_;  // of this machine, unique among all processes

  std::atomic<std::uint64_t> bus_bytes_{0};  // a statistic; orders nothing

  mutable std::mutex mutex_;  // guards all below
  Cu failure_ = Cu::kSuccess;
  bool paused_ = false;
  bool stop_ = false;
  std::map<std::thread::id, DeviceId> current_;
  std::map<DevicePointer, MemoryRange> memory_;
  std::uint64_t next_handle_ = 16;  // above the default streams'
  // Owners of both kinds: these maps, the thread in a turn, and steps that wait for an event.
  std::map<std::uint64_t, std::shared_ptr<Stream>> streams_;
  std::map<std::uint64_t, std::shared_ptr<EmulatedEvent>> events_;
  std::uint64_t allocations_ = 0;
  std::condition_variable work_;  // for the thread
  std::condition_variable done_;  // for synchronize()
  std::thread thread_;
};

}  // namespace holdfast::device
