#include "device/device.h"

#include <algorithm>
#include <atomic>

namespace holdfast::device {
namespace {

constexpr std::uint64_t kPage = 4096;
// Pinning is slow, so pieces have few sizes and are easily reused.
constexpr std::uint64_t kSmallestPiece = 64 * 1024;
// A piece of the pool may be this many times as large as the request.
constexpr std::uint64_t kMostSlack = 4;
constexpr int kHighestPriority = -5;      // the driver clamps it to its range
constexpr std::uint64_t kFlagBytes = 64;  // a cache line per flag
constexpr std::uint64_t kFlagsAtOnce = kPage / kFlagBytes;

DevicePointer address(const void* memory) { return reinterpret_cast<DevicePointer>(memory); }

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

// Sizes are powers of two and the middles between them, so that little is wasted and much is
// reused.
std::uint64_t piece_bytes(std::uint64_t wanted) {
  std::uint64_t size = kSmallestPiece;
  while (size < wanted) {
    if (size + size / 2 >= wanted) return round_up(size + size / 2, kPage);
    size *= 2;
  }
  return size;
}

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

Device::Current::Current(const Device& device) : device_(device) {
  const CudaDriver& d = device.driver();
  if (d.ctx_get_current(&before_) == Cu::kSuccess && before_ == device.context_) return;
  status_ = device.check(d.ctx_set_current(device.context_), "making its context current");
  changed_ = status_.is_ok();
}

Device::Current::~Current() {
  // The thread may be a framework's, with a device of its own.
  if (changed_) device_.driver().ctx_set_current(before_);
}

Result<std::shared_ptr<Device>> Device::open(DriverTable driver, int ordinal, HostMemory host) {
  int count = 0;
  TRY(device::check(*driver, driver->device_get_count(&count), "counting the CUDA devices"));
  if (ordinal < 0 || ordinal >= count) {
    return Status(Code::kConfigError, "CUDA device " + std::to_string(ordinal) + "; accepted: " +
                                          (count == 0 ? "none, there is no device"
                                                      : "0 to " + std::to_string(count - 1)));
  }
  // The constructor is private, so make_shared cannot call it.
  std::shared_ptr<Device> device(new Device(std::move(driver), std::move(host), ordinal));
  TRY(device->start());
  return device;
}

Status Device::start() {
  const CudaDriver& d = *driver_;
  TRY(check(d.device_get(&id_, ordinal_), "opening it"));
  constexpr int kMostName = 256;
  char name[kMostName] = {};
  TRY(check(d.device_get_name(name, kMostName, id_), "asking its name"));
  name_ = name;
  int pools = 0;
  TRY(check(d.device_get_attribute(&pools, Attribute::kMemoryPools, id_), "asking what it can do"));
  has_pools_ = pools != 0;
  TRY(check(d.device_primary_ctx_retain(&context_, id_), "retaining its context"));
  const Current current(*this);
  TRY(current.status());
  return probe_waits();
}

Result<std::uint32_t> Device::processors() const {
  int count = 0;
  TRY(check(driver_->device_get_attribute(&count, Attribute::kMultiprocessors, id_),
            "counting its multiprocessors"));
  return static_cast<std::uint32_t>(count);
}

// Some systems have no memory operations on streams; only a trial shows it.
Status Device::probe_waits() {
  auto stream = make_stream();
  if (!stream.is_ok()) return stream.status();
  auto flag = take_flag();
  if (!flag.is_ok()) return flag.status();
  const Flag& f = flag.value();
  streams_wait_ =
      driver_->stream_write_value32(stream.value(), f.device, f.due, 0) == Cu::kSuccess &&
      driver_->stream_wait_value32(stream.value(), f.device, f.due, kWaitGreaterOrEqual) ==
          Cu::kSuccess;
  Status ended = check(driver_->stream_synchronize(stream.value()), "trying a stream");
  driver_->stream_destroy(stream.value());
  give_flag(f);
  return ended;
}

Device::~Device() {
  {
    const Current current(*this);
    for (const CuEvent event : events_) driver_->event_destroy(event);
    for (const LentMemory& lent : lent_) {
      for (const CuEvent event : lent.events) driver_->event_destroy(event);
    }
    for (const auto& [data, given] : slabs_) {
      driver_->mem_host_unregister(data);
      host_.release(given);
    }
  }
  if (context_.value != nullptr) driver_->device_primary_ctx_release(id_);
}

Status Device::check(Cu result, std::string_view what) const {
  if (result == Cu::kSuccess) return Status::ok();
  return device::check(*driver_, result,
                       "CUDA device " + std::to_string(ordinal_) + ": " + std::string(what));
}

Result<CuStream> Device::make_stream() const {
  CuStream stream;
  TRY(check(driver_->stream_create_with_priority(&stream, kStreamNonBlocking, kHighestPriority),
            "making a stream"));
  return stream;
}

Result<Pinned> Device::take(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    take_back();
    const auto found = idle_.lower_bound(bytes);
    const std::uint64_t most =
        bytes <= kPage ? kPage : kMostSlack * std::max(bytes, kSmallestPiece);
    if (found != idle_.end() && found->first <= most) {
      const Pinned piece = found->second;
      idle_.erase(found);
      return piece;
    }
    if (pinned_bytes_ + bytes > kMostPinned) trim();
    if (pinned_bytes_ + bytes > kMostPinned) {
      return Status(Code::kSystem,
                    "CUDA device " + std::to_string(ordinal_) + ": pinning " + bytes_text(bytes) +
                        " of host memory: " + bytes_text(pinned_bytes_) + " are pinned already, " +
                        bytes_text(kMostPinned) + " at most");
    }
  }
  if (bytes > kPage) return pin(piece_bytes(bytes));
  // Small ones share a piece, since messages may have many under way.
  auto shared = pin(kSmallestPiece);
  if (!shared.is_ok()) return shared;
  std::byte* const data = shared.value().data;
  const std::lock_guard lock(mutex_);
  for (std::uint64_t at = kPage; at < kSmallestPiece; at += kPage) {
    idle_.emplace(kPage, Pinned{data + at, kPage});
  }
  return Pinned{data, kPage};
}

Result<Pinned> Device::pin(std::uint64_t bytes) {
  // Pieces begin and end at page boundaries, so that no page is pinned twice.
  std::byte* given = host_.allocate(bytes + kPage);
  if (given == nullptr) {
    return Status(Code::kSystem, "no host memory for " + bytes_text(bytes) + " to be pinned");
  }
  std::byte* data = given + (round_up(address(given), kPage) - address(given));
  const Status pinned =
      check(driver_->mem_host_register(data, bytes, kHostPortable | kHostDeviceMap),
            "pinning " + bytes_text(bytes) + " of host memory");
  if (!pinned.is_ok()) {
    host_.release(given);
    return pinned;
  }
  const std::lock_guard lock(mutex_);
  slabs_[data] = given;
  pinned_bytes_ += bytes;
  return Pinned{data, bytes};
}

void Device::give(Pinned memory) {
  const std::lock_guard lock(mutex_);
  idle_.emplace(memory.bytes, memory);
}

void Device::give_after(Pinned memory, const std::vector<CuEvent>& events) {
  const std::lock_guard lock(mutex_);
  lent_.push_back({memory, events});
}

// The caller holds mutex_. Takes back memory whose events have happened; on a lost device, all of
// it.
void Device::take_back() {
  std::erase_if(lent_, [this](const LentMemory& lent) {
    const bool pending = std::any_of(lent.events.begin(), lent.events.end(), [this](CuEvent event) {
      return driver_->event_query(event) == Cu::kNotReady;
    });
    if (pending) return false;
    events_.insert(events_.end(), lent.events.begin(), lent.events.end());
    idle_.emplace(lent.memory.bytes, lent.memory);
    return true;
  });
}

// The caller holds mutex_. Pages stay, as others of their piece may be in use.
void Device::trim() {
  std::erase_if(idle_, [this](const auto& idle) {
    const auto& [bytes, piece] = idle;
    if (bytes == kPage) return false;
    driver_->mem_host_unregister(piece.data);
    const auto slab = slabs_.find(piece.data);
    host_.release(slab->second);
    slabs_.erase(slab);
    pinned_bytes_ -= bytes;
    return true;
  });
}

Result<CuEvent> Device::take_event() {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      const CuEvent event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  CuEvent event;
  TRY(check(driver_->event_create(&event, kEventNoTiming), "making an event"));
  return event;
}

void Device::give_event(CuEvent event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

Result<Flag> Device::take_flag() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (!flags_.empty()) {
        Flag flag = flags_.back();
        flags_.pop_back();
        ++flag.due;
        return flag;
      }
    }
    TRY(add_flags());
  }
}

// Flags live as long as the device: their page is never given back to the pool.
Status Device::add_flags() {
  auto page = take(kPage);
  if (!page.is_ok()) return page.status();
  DevicePointer device = 0;
  TRY(check(driver_->mem_host_get_device_pointer(&device, page.value().data, 0),
            "mapping host memory"));
  const std::lock_guard lock(mutex_);
  for (std::uint64_t i = 0; i < kFlagsAtOnce; ++i) {
    auto* host = reinterpret_cast<std::uint32_t*>(page.value().data + i * kFlagBytes);
    *host = 0;
    flags_.push_back({host, device + i * kFlagBytes, 0});
  }
  return Status::ok();
}

void Device::give_flag(const Flag& flag) {
  const std::lock_guard lock(mutex_);
  flags_.push_back(flag);
}

void Device::raise(const Flag& flag) {
  // release: all writes for the stream that waits come before it
  std::atomic_ref(*flag.host).store(flag.due, std::memory_order_release);
}

Status Device::order(CuStream first, CuStream second) {
  auto event = take_event();
  if (!event.is_ok()) return event.status();
  Status ordered = check(driver_->event_record(event.value(), first), "recording an event");
  if (ordered.is_ok()) {
    ordered = check(driver_->stream_wait_event(second, event.value(), 0), "waiting for an event");
  }
  // The wait is for the event's record at this moment, so the event may be reused.
  give_event(event.value());
  return ordered;
}

Status Device::copy(DevicePointer to, DevicePointer from, std::uint64_t bytes,
                    CuStream stream) const {
  if (bytes == 0) return Status::ok();
  return check(driver_->memcpy_async(to, from, bytes, stream),
               "copying " + bytes_text(bytes) + " between device and host");
}

Result<DevicePointer> Device::allocate(std::uint64_t bytes, CuStream stream) const {
  DevicePointer memory = 0;
  const Cu result = has_pools_ ? driver_->mem_alloc_async(&memory, bytes, stream)
                               : driver_->mem_alloc(&memory, bytes);
  if (result == Cu::kSuccess) return memory;
  std::string what = "allocating " + bytes_text(bytes);
  std::size_t free = 0;
  std::size_t total = 0;
  if (driver_->mem_get_info(&free, &total) == Cu::kSuccess) {
    what += " of device memory, of which " + bytes_text(free) + " of " + bytes_text(total) +
            " are free";
  }
  return check(result, what);
}

Status Device::release(DevicePointer memory, CuStream stream) const {
  return check(has_pools_ ? driver_->mem_free_async(memory, stream) : driver_->mem_free(memory),
               "freeing device memory");
}

Status Device::check_memory(DevicePointer memory, std::uint64_t bytes,
                            std::string_view what) const {
  for (const DevicePointer at : {memory, memory + bytes - 1}) {
    unsigned type = 0;
    int owner = -1;
    const bool known =
        driver_->pointer_get_attribute(&type, PointerAttribute::kMemoryType, at) == Cu::kSuccess;
    const bool owned =
        known && type == kMemoryTypeDevice &&
        driver_->pointer_get_attribute(&owner, PointerAttribute::kDevice, at) == Cu::kSuccess;
    if (owned && owner == ordinal_) continue;
    return {Code::kConfigError,
            std::string(what) + ": memory " +
                (owned ? "of CUDA device " + std::to_string(owner) : "of the host, or of nobody") +
                " among that of CUDA device " + std::to_string(ordinal_) +
                "; accepted: memory of one device for all blocks of an op"};
  }
  return Status::ok();
}

Status Device::check_capture(CuStream stream, std::string_view what) const {
  int status = kNotCapturing;
  TRY(check(driver_->stream_is_capturing(stream, &status), "asking a stream"));
  if (status == kNotCapturing) return Status::ok();
  return {Code::kUnsupported,
          std::string(what) +
              " on a stream that is captured into a CUDA graph: the op runs on the "
              "host, which a graph does not replay; call it outside of the capture"};
}

std::uint64_t Device::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  return pinned_bytes_;
}

}  // namespace holdfast::device
