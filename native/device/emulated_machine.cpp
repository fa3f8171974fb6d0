#include "device/emulated_machine.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace holdfast::device {
namespace {

// Interval at which a stream polls a value in memory that it waits for.
constexpr Duration kValueLook = std::chrono::microseconds(50);
constexpr Duration kIdle = std::chrono::milliseconds(200);
// The bytes make an implausible float, index or bool.
constexpr int kPattern = 0xCD;

Instant now() { return {std::chrono::steady_clock::now().time_since_epoch()}; }

std::uint64_t number(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }
std::uint64_t machine_number() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}
void* handle(std::uint64_t number) {
  return reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr): an opaque number
}

}  // namespace

EmulatedMachine::EmulatedMachine(const EmulatedSettings& settings)
    : settings_(settings), number_(machine_number()) {
  streams_[0] = std::make_shared<Stream>();
  thread_ = std::thread([this] { thread_main(); });
}

EmulatedMachine::~EmulatedMachine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  thread_.join();
}

void EmulatedMachine::fail(Cu error) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = error;
    for (auto& [id, stream] : streams_) stream->items.clear();
  }
  work_.notify_all();
  done_.notify_all();
}

void EmulatedMachine::pause() {
  const std::lock_guard lock(mutex_);
  paused_ = true;
}

void EmulatedMachine::resume() {
  {
    const std::lock_guard lock(mutex_);
    paused_ = false;
  }
  work_.notify_all();
}

void EmulatedMachine::set_capturing(CuStream stream, bool capturing) {
  const std::lock_guard lock(mutex_);
  if (const auto found = stream_of(stream)) found->capturing = capturing;
}

bool EmulatedMachine::idle() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const auto& entry) { return entry.second->idle(); });
}

std::uint64_t EmulatedMachine::device_bytes_used() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t used = 0;
  for (const auto& [at, range] : memory_) used += range.kind == Memory::kDevice ? range.bytes : 0;
  return used;
}

std::uint64_t EmulatedMachine::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t used = 0;
  for (const auto& [at, range] : memory_) used += range.on_device() ? 0 : range.bytes;
  return used;
}

std::size_t EmulatedMachine::imported() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(memory_.begin(), memory_.end(),
                    [](const auto& entry) { return entry.second.kind == Memory::kImported; }));
}

Cu EmulatedMachine::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

DeviceId EmulatedMachine::current() const {
  const std::lock_guard lock(mutex_);
  const auto at = current_.find(std::this_thread::get_id());
  return at == current_.end() ? -1 : at->second;
}

void EmulatedMachine::set_current(DeviceId device) {
  const std::lock_guard lock(mutex_);
  current_[std::this_thread::get_id()] = device;
}

Cu EmulatedMachine::allocate(Memory kind, std::uint64_t bytes, bool shared, DevicePointer& at) {
  const DeviceId device = current();
  const std::lock_guard lock(mutex_);
  if (bytes == 0) return Cu::kInvalidValue;
  std::uint64_t used = bytes;
  for (const auto& [start, range] : memory_) {
    if (range.kind == kind && range.device == device && !range.leaving) used += range.bytes;
  }
  if (kind == Memory::kDevice && used > settings_.memory_bytes) return Cu::kOutOfMemory;
  MemoryRange range{kind, device, bytes, nullptr};
  if (shared) {
    range.share = EmulatedShare::make(number_, bytes);
    if (range.share == nullptr) return Cu::kOutOfMemory;
  } else {
    range.owned = std::make_shared<std::byte[]>(bytes);
  }
  std::byte* data = shared ? range.share->data() : range.owned.get();
  std::memset(data, kPattern, bytes);
  range.number = ++allocations_;
  at = number(data);
  memory_[at] = std::move(range);
  return Cu::kSuccess;
}

Cu EmulatedMachine::adopt(void* host, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t begin = number(host);
  if (bytes == 0) return Cu::kInvalidValue;
  for (const auto& [at, range] : memory_) {
    if (at < begin + bytes && begin < at + range.bytes) return Cu::kInvalidValue;
  }
  memory_[begin] = {Memory::kRegistered, -1, bytes, nullptr};
  return Cu::kSuccess;
}

Cu EmulatedMachine::release(DevicePointer at, Memory kind) {
  const std::lock_guard lock(mutex_);
  const auto found = memory_.find(at);
  if (found == memory_.end() || found->second.kind != kind) return Cu::kInvalidValue;
  if (found->second.share != nullptr) found->second.share->mark_freed();
  memory_.erase(found);
  return Cu::kSuccess;
}

Cu EmulatedMachine::release_later(DevicePointer at, CuStream stream) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = memory_.find(at); found != memory_.end()) found->second.leaving = true;
  }
  return enqueue(stream, [this, at] {
    const Cu released = release(at, Memory::kDevice);
    return std::optional(released == Cu::kSuccess ? released : Cu::kIllegalAddress);
  });
}

Cu EmulatedMachine::export_memory(DevicePointer at, CuIpcMemory& handle) const {
  const auto found = find(at, 1);
  if (!found || found->second.kind != Memory::kDevice) return Cu::kInvalidValue;
  if (found->second.share == nullptr) return Cu::kInvalidValue;
  handle = found->second.share->handle();
  return Cu::kSuccess;
}

// Like the driver, refuses memory of its own process, and maps memory that is open already at the
// same address.
Cu EmulatedMachine::import_memory(const CuIpcMemory& handle, DevicePointer& at) {
  if (EmulatedShare::machine_of(handle) == number_) return Cu::kInvalidContext;
  const auto share = EmulatedShare::open(handle);
  if (share == nullptr) return Cu::kInvalidHandle;
  const DeviceId device = current();
  const std::lock_guard lock(mutex_);
  for (auto& [start, range] : memory_) {
    if (range.kind != Memory::kImported || range.share->serial() != share->serial()) continue;
    ++range.opened;
    at = start;
    return Cu::kSuccess;
  }
  at = number(share->data());
  memory_[at] = {Memory::kImported, device, share->bytes(), nullptr, share, ++allocations_, 1};
  return Cu::kSuccess;
}

Cu EmulatedMachine::close_memory(DevicePointer at) {
  const std::lock_guard lock(mutex_);
  const auto found = memory_.find(at);
  if (found == memory_.end() || found->second.kind != Memory::kImported) return Cu::kInvalidValue;
  if (--found->second.opened == 0) memory_.erase(found);
  return Cu::kSuccess;
}

std::optional<std::pair<DevicePointer, EmulatedMachine::MemoryRange>> EmulatedMachine::find(
    DevicePointer at, std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto found = memory_.upper_bound(at);
  if (found == memory_.begin()) return std::nullopt;
  --found;
  if (at + bytes > found->first + found->second.bytes) return std::nullopt;
  // The owner of an imported range may have freed it.
  const bool imported = found->second.kind == Memory::kImported;
  if (imported && found->second.share->freed()) return std::nullopt;
  return *found;
}

std::shared_ptr<EmulatedMachine::Stream> EmulatedMachine::stream_of(CuStream stream) const {
  std::uint64_t id = number(stream.value);
  if (id <= number(per_thread_stream().value)) id = 0;
  const auto at = streams_.find(id);
  return at == streams_.end() || at->second->doomed ? nullptr : at->second;
}

std::shared_ptr<EmulatedMachine::EmulatedEvent> EmulatedMachine::event_of(CuEvent event) const {
  const auto at = events_.find(number(event.value));
  return at == events_.end() ? nullptr : at->second;
}

CuStream EmulatedMachine::make_stream() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = next_handle_++;
  streams_[id] = std::make_shared<Stream>();
  return {handle(id)};
}

Cu EmulatedMachine::destroy_stream(CuStream stream) {
  const std::lock_guard lock(mutex_);
  const auto found = stream_of(stream);
  if (found == nullptr || number(stream.value) == 0) return Cu::kInvalidHandle;
  found->doomed = true;
  if (found->idle()) streams_.erase(number(stream.value));
  return Cu::kSuccess;
}

Cu EmulatedMachine::enqueue(CuStream stream, StreamStep step) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ != Cu::kSuccess) return failure_;
    const auto found = stream_of(stream);
    if (found == nullptr) return Cu::kInvalidHandle;
    if (found->capturing) return Cu::kStreamCaptureUnsupported;
    found->items.push_back({now() + settings_.lateness, std::move(step)});
  }
  work_.notify_all();
  return Cu::kSuccess;
}

Cu EmulatedMachine::query(CuStream stream) {
  const std::lock_guard lock(mutex_);
  if (failure_ != Cu::kSuccess) return failure_;
  const auto found = stream_of(stream);
  if (found == nullptr) return Cu::kInvalidHandle;
  return found->idle() ? Cu::kSuccess : Cu::kNotReady;
}

Cu EmulatedMachine::synchronize(CuStream stream) {
  std::unique_lock lock(mutex_);
  const auto found = stream_of(stream);
  if (found == nullptr) return Cu::kInvalidHandle;
  done_.wait(lock, [&] { return failure_ != Cu::kSuccess || found->idle(); });
  return failure_;
}

bool EmulatedMachine::is_capturing(CuStream stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = stream_of(stream);
  return found != nullptr && found->capturing;
}

CuEvent EmulatedMachine::make_event() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = next_handle_++;
  events_[id] = std::make_shared<EmulatedEvent>();
  return {handle(id)};
}

Cu EmulatedMachine::destroy_event(CuEvent event) {
  const std::lock_guard lock(mutex_);
  return events_.erase(number(event.value)) == 1 ? Cu::kSuccess : Cu::kInvalidHandle;
}

Cu EmulatedMachine::record(CuEvent event, CuStream stream) {
  const auto record = std::make_shared<EventRecord>();
  {
    const std::lock_guard lock(mutex_);
    const auto found = event_of(event);
    if (found == nullptr) return Cu::kInvalidHandle;
    found->latest = record;
  }
  return enqueue(stream, [this, record] {
    const std::lock_guard lock(mutex_);
    record->reached = true;
    record->at = now().since_origin;
    return std::optional(Cu::kSuccess);
  });
}

Cu EmulatedMachine::query(CuEvent event) const {
  const std::lock_guard lock(mutex_);
  if (failure_ != Cu::kSuccess) return failure_;
  const auto found = event_of(event);
  if (found == nullptr) return Cu::kInvalidHandle;
  return found->latest == nullptr || found->latest->reached ? Cu::kSuccess : Cu::kNotReady;
}

Cu EmulatedMachine::synchronize(CuEvent event) {
  std::unique_lock lock(mutex_);
  const auto found = event_of(event);
  if (found == nullptr) return Cu::kInvalidHandle;
  const auto record = found->latest;
  done_.wait(lock,
             [&] { return failure_ != Cu::kSuccess || record == nullptr || record->reached; });
  return failure_;
}

Cu EmulatedMachine::wait(CuStream stream, CuEvent event) {
  std::shared_ptr<EventRecord> record;
  {
    const std::lock_guard lock(mutex_);
    const auto found = event_of(event);
    if (found == nullptr) return Cu::kInvalidHandle;
    record = found->latest;
  }
  return enqueue(stream, [this, record]() -> std::optional<Cu> {
    const std::lock_guard lock(mutex_);
    if (record != nullptr && !record->reached) return std::nullopt;
    return Cu::kSuccess;
  });
}

Cu EmulatedMachine::elapsed(float* ms, CuEvent from, CuEvent to) const {
  const std::lock_guard lock(mutex_);
  const auto begin = event_of(from);
  const auto end = event_of(to);
  if (begin == nullptr || end == nullptr || begin->latest == nullptr || end->latest == nullptr) {
    return Cu::kInvalidHandle;
  }
  *ms = std::chrono::duration<float, std::milli>(end->latest->at - begin->latest->at).count();
  return Cu::kSuccess;
}

bool EmulatedMachine::turn(std::unique_lock<std::mutex>& lock, Instant& next) {
  bool moved = false;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Stream>>> all(streams_.begin(),
                                                                     streams_.end());
  for (const auto& [id, stream] : all) {
    if (paused_ || failure_ != Cu::kSuccess) return false;
    if (stream->items.empty()) continue;
    if (now() < stream->items.front().not_before) {
      next = std::min(next, stream->items.front().not_before);
      continue;
    }
    Item item = std::move(stream->items.front());
    stream->items.pop_front();
    stream->running = true;
    lock.unlock();
    const std::optional<Cu> result = item.step();
    if (result) item.step = nullptr;
    lock.lock();
    stream->running = false;
    if (!result) {
      next = std::min(next, now() + kValueLook);
      if (failure_ == Cu::kSuccess) stream->items.push_front(std::move(item));
      continue;
    }
    moved = true;
    if (*result != Cu::kSuccess && failure_ == Cu::kSuccess) failure_ = *result;
    if (stream->doomed && stream->idle()) streams_.erase(id);
    done_.notify_all();
  }
  return moved;
}

void EmulatedMachine::thread_main() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    Instant next = now() + kIdle;
    if (turn(lock, next) || stop_) continue;
    work_.wait_until(lock, std::chrono::steady_clock::time_point(next.since_origin));
  }
}

}  // namespace holdfast::device
