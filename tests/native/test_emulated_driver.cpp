// The emulated device: that it is as strict as a driver, and as late.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <vector>

#include "device/emulated_driver.h"

namespace holdfast::device {
namespace {

DevicePointer address(const void* memory) { return reinterpret_cast<DevicePointer>(memory); }

struct Doubling {
  float* data;
  std::uint64_t count;
};

constexpr KernelRow kDoubling{"doubling", "test", sizeof(Doubling),
                              [](const KernelLaunch& launch, const void* argument) {
                                const auto& work = *static_cast<const Doubling*>(argument);
                                CHECK(launch.blocks == 2);
                                CHECK(launch.threads == 32);
                                for (std::uint64_t i = 0; i < work.count; ++i) work.data[i] *= 2;
                              }};

struct World {
  EmulatedDriver driver;
  const CudaDriver& d;
  explicit World(const EmulatedSettings& settings = {})
      : driver(make_emulated_driver(settings)), d(*driver.table) {
    CuContext context;
    REQUIRE(d.device_primary_ctx_retain(&context, 0) == Cu::kSuccess);
    REQUIRE(d.ctx_set_current(context) == Cu::kSuccess);
  }
  CuStream stream() const {
    CuStream stream;
    REQUIRE(d.stream_create_with_priority(&stream, kStreamNonBlocking, 0) == Cu::kSuccess);
    return stream;
  }
  DevicePointer device(std::size_t bytes) const {
    DevicePointer at = 0;
    REQUIRE(d.mem_alloc(&at, bytes) == Cu::kSuccess);
    return at;
  }
  template <class T>
  T* pinned(std::size_t count) const {
    void* at = nullptr;
    REQUIRE(d.mem_host_alloc(&at, count * sizeof(T), 0) == Cu::kSuccess);
    return static_cast<T*>(at);
  }
};

TEST_CASE("copies and kernels happen in the stream's order, and not before") {
  World world({.kernels = {&kDoubling, 1}});
  const CuStream stream = world.stream();
  auto* host = world.pinned<float>(3);
  const DevicePointer there = world.device(3 * sizeof(float));
  CuModule module;
  CuFunction function;
  REQUIRE(world.d.module_load_data(&module, "image") == Cu::kSuccess);
  REQUIRE(world.d.module_get_function(&function, module, "doubling") == Cu::kSuccess);
  CHECK(world.d.module_get_function(&function, module, "other") == Cu::kNotFound);
  for (int i = 0; i < 3; ++i) host[i] = static_cast<float>(i + 1);
  world.driver.control->pause();
  REQUIRE(world.d.memcpy_async(there, address(host), 12, stream) == Cu::kSuccess);
  Doubling argument{reinterpret_cast<float*>(there), 3};  // NOLINT(performance-no-int-to-ptr)
  void* arguments[] = {&argument};
  REQUIRE(world.d.launch_kernel(function, {2}, {32}, 0, stream, arguments) == Cu::kSuccess);
  argument = {};  // was copied
  REQUIRE(world.d.memcpy_async(address(host), there, 12, stream) == Cu::kSuccess);
  CHECK(world.d.stream_query(stream) == Cu::kNotReady);
  CHECK(host[2] == 3);
  world.driver.control->resume();
  REQUIRE(world.d.stream_synchronize(stream) == Cu::kSuccess);
  CHECK(world.d.stream_query(stream) == Cu::kSuccess);
  CHECK(host[0] == 2);
  CHECK(host[2] == 6);
}

TEST_CASE("memory that is not the device's, or not pinned, or freed, is refused") {
  World world;
  const CuStream stream = world.stream();
  const DevicePointer there = world.device(64);
  std::array<std::byte, 64> pageable{};
  CHECK(world.d.memcpy_async(there, address(pageable.data()), 64, stream) == Cu::kInvalidValue);
  REQUIRE(world.d.mem_host_register(pageable.data(), 64, 0) == Cu::kSuccess);
  CHECK(world.d.mem_host_register(pageable.data() + 8, 8, 0) == Cu::kInvalidValue);
  CHECK(world.d.memcpy_async(there, address(pageable.data()), 64, stream) == Cu::kSuccess);
  CHECK(world.d.memcpy_async(there, address(pageable.data()), 65, stream) == Cu::kInvalidValue);
  CHECK(world.d.memcpy_async(there + 1, address(pageable.data()), 64, stream) == Cu::kInvalidValue);
  REQUIRE(world.d.stream_synchronize(stream) == Cu::kSuccess);
  REQUIRE(world.d.mem_host_unregister(pageable.data()) == Cu::kSuccess);
  REQUIRE(world.d.mem_free(there) == Cu::kSuccess);
  CHECK(world.d.mem_free(there) == Cu::kInvalidValue);
  CHECK(world.d.memset_d8_async(there, 0, 64, stream) == Cu::kInvalidValue);
  CHECK(world.driver.control->device_bytes_used() == 0);
  CHECK(world.driver.control->pinned_bytes() == 0);
}

TEST_CASE("memory freed under a copy fails the device, for good") {
  World world;
  const CuStream stream = world.stream();
  auto* host = world.pinned<std::byte>(64);
  const DevicePointer there = world.device(64);
  world.driver.control->pause();
  REQUIRE(world.d.memcpy_async(there, address(host), 64, stream) == Cu::kSuccess);
  REQUIRE(world.d.mem_free(there) == Cu::kSuccess);
  world.driver.control->resume();
  CHECK(world.d.stream_synchronize(stream) == Cu::kIllegalAddress);
  CHECK(world.d.memset_d8_async(address(host), 0, 1, stream) == Cu::kIllegalAddress);
}

TEST_CASE("the device's memory has an end, and comes back") {
  World world({.memory_bytes = 1000});
  DevicePointer at = 0;
  const DevicePointer most = world.device(900);
  CHECK(world.d.mem_alloc(&at, 101) == Cu::kOutOfMemory);
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(world.d.mem_get_info(&free, &total) == Cu::kSuccess);
  CHECK(free == 100);
  CHECK(total == 1000);
  REQUIRE(world.d.mem_free_async(most, {}) == Cu::kSuccess);
  REQUIRE(world.d.stream_synchronize({}) == Cu::kSuccess);
  CHECK(world.d.mem_alloc(&at, 1000) == Cu::kSuccess);
}

TEST_CASE("a thread without a context gets nothing") {
  const EmulatedDriver driver = make_emulated_driver({});
  DevicePointer at = 0;
  CuStream stream;
  CHECK(driver.table->mem_alloc(&at, 1) == Cu::kInvalidContext);
  CHECK(driver.table->stream_create_with_priority(&stream, 0, 0) == Cu::kInvalidContext);
}

TEST_CASE("streams wait for events, and for values that the host or another stream writes") {
  World world;
  const CuStream first = world.stream();
  const CuStream second = world.stream();
  auto* flags = world.pinned<std::uint32_t>(2);
  flags[0] = flags[1] = 0;
  CuEvent event;
  REQUIRE(world.d.event_create(&event, kEventNoTiming) == Cu::kSuccess);
  CHECK(world.d.event_query(event) == Cu::kSuccess);  // never recorded
  REQUIRE(world.d.stream_wait_value32(first, address(flags), 7, kWaitGreaterOrEqual) ==
          Cu::kSuccess);
  REQUIRE(world.d.event_record(event, first) == Cu::kSuccess);
  REQUIRE(world.d.stream_wait_event(second, event, 0) == Cu::kSuccess);
  REQUIRE(world.d.stream_write_value32(second, address(flags + 1), 9, 0) == Cu::kSuccess);
  CHECK(world.d.event_query(event) == Cu::kNotReady);
  std::atomic_ref(flags[0]).store(6, std::memory_order_release);
  CHECK(world.d.event_query(event) == Cu::kNotReady);
  CHECK(std::atomic_ref(flags[1]).load() == 0);
  std::atomic_ref(flags[0]).store(8, std::memory_order_release);
  REQUIRE(world.d.event_synchronize(event) == Cu::kSuccess);
  REQUIRE(world.d.stream_synchronize(second) == Cu::kSuccess);
  CHECK(std::atomic_ref(flags[1]).load() == 9);
}

TEST_CASE("a wait is for what was recorded before it, wherever the event is recorded next") {
  World world;
  const CuStream first = world.stream();
  const CuStream second = world.stream();
  const CuStream third = world.stream();
  auto* flags = world.pinned<std::uint32_t>(2);
  flags[0] = flags[1] = 0;
  CuEvent event;
  REQUIRE(world.d.event_create(&event, kEventNoTiming) == Cu::kSuccess);
  REQUIRE(world.d.stream_wait_value32(first, address(flags), 1, kWaitEqual) == Cu::kSuccess);
  REQUIRE(world.d.event_record(event, first) == Cu::kSuccess);
  REQUIRE(world.d.stream_wait_event(second, event, 0) == Cu::kSuccess);
  REQUIRE(world.d.stream_write_value32(second, address(flags + 1), 9, 0) == Cu::kSuccess);
  REQUIRE(world.d.event_record(event, third) == Cu::kSuccess);
  REQUIRE(world.d.event_synchronize(event) == Cu::kSuccess);
  REQUIRE(world.d.stream_synchronize(third) == Cu::kSuccess);
  CHECK(world.d.stream_query(second) == Cu::kNotReady);
  CHECK(std::atomic_ref(flags[1]).load() == 0);
  std::atomic_ref(flags[0]).store(1, std::memory_order_release);
  REQUIRE(world.d.stream_synchronize(second) == Cu::kSuccess);
  CHECK(std::atomic_ref(flags[1]).load() == 9);
}

TEST_CASE("a lost device calls nothing back, and every call says so") {
  World world;
  const CuStream stream = world.stream();
  std::atomic<bool> called{false};
  const auto call = [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; };
  world.driver.control->pause();
  REQUIRE(world.d.launch_host_func(stream, call, &called) == Cu::kSuccess);
  world.driver.control->fail(Cu::kLaunchFailed);
  world.driver.control->resume();
  CHECK(world.d.stream_synchronize(stream) == Cu::kLaunchFailed);
  CHECK(world.d.launch_host_func(stream, call, &called) == Cu::kLaunchFailed);
  CHECK(!called);
}

TEST_CASE("what is still enqueued goes with the device") {
  World world;
  const CuStream stream = world.stream();
  auto* flag = world.pinned<std::uint32_t>(1);
  *flag = 0;
  REQUIRE(world.d.stream_wait_value32(stream, address(flag), 1, kWaitEqual) == Cu::kSuccess);
  CHECK(world.d.stream_query(stream) == Cu::kNotReady);
}

// Two of them are two processes to each other.
World sharing() { return World({.exports = true}); }

TEST_CASE("memory of another process is mapped, read where it lies, and closed") {
  const World owner = sharing();
  auto* host = owner.pinned<float>(1000);
  host[999] = 7;
  const DevicePointer there = owner.device(4000);
  const CuStream up = owner.stream();
  REQUIRE(owner.d.memcpy_async(there, address(host), 4000, up) == Cu::kSuccess);
  REQUIRE(owner.d.stream_synchronize(up) == Cu::kSuccess);
  CuIpcMemory handle;
  REQUIRE(owner.d.ipc_get_mem_handle(&handle, there) == Cu::kSuccess);

  const World other = sharing();
  DevicePointer here = 0;
  REQUIRE(other.d.ipc_open_mem_handle(&here, handle, kIpcLazyPeerAccess) == Cu::kSuccess);
  CHECK(here != there);
  unsigned type = 0;
  CHECK(other.d.pointer_get_attribute(&type, PointerAttribute::kMemoryType, here) == Cu::kSuccess);
  CHECK(type == kMemoryTypeDevice);
  auto* copy = other.pinned<float>(1000);
  const CuStream down = other.stream();
  REQUIRE(other.d.memcpy_async(address(copy), here, 4000, down) == Cu::kSuccess);
  REQUIRE(other.d.stream_synchronize(down) == Cu::kSuccess);
  CHECK(copy[999] == 7);
  // Opened again, it is where it was, and closed as often.
  DevicePointer again = 0;
  REQUIRE(other.d.ipc_open_mem_handle(&again, handle, 0) == Cu::kSuccess);
  CHECK(again == here);
  CHECK(other.d.ipc_close_mem_handle(here) == Cu::kSuccess);
  CHECK(other.driver.control->imported() == 1);
  CHECK(other.d.ipc_close_mem_handle(here) == Cu::kSuccess);
  CHECK(other.driver.control->imported() == 0);
  CHECK(other.d.ipc_close_mem_handle(here) == Cu::kInvalidValue);
  CHECK(other.d.memcpy_async(address(copy), here, 4000, down) == Cu::kInvalidValue);
}

TEST_CASE("memory that a stream has yet to free makes room for what is allocated after it") {
  const World world({.memory_bytes = 1000});
  const CuStream stream = world.stream();
  world.driver.control->pause();
  DevicePointer at = 0;
  REQUIRE(world.d.mem_alloc_async(&at, 600, stream) == Cu::kSuccess);
  DevicePointer more = 0;
  CHECK(world.d.mem_alloc_async(&more, 600, stream) == Cu::kOutOfMemory);
  REQUIRE(world.d.mem_free_async(at, stream) == Cu::kSuccess);
  CHECK(world.driver.control->device_bytes_used() == 600);
  CHECK(world.d.mem_alloc_async(&more, 600, world.stream()) == Cu::kSuccess);
  CHECK(world.d.mem_alloc_async(&at, 600, stream) == Cu::kOutOfMemory);
  world.driver.control->resume();
  REQUIRE(world.d.stream_synchronize(stream) == Cu::kSuccess);
  CHECK(world.driver.control->device_bytes_used() == 600);
}

TEST_CASE("handles that cannot be, and memory that is gone, are errors") {
  const World owner = sharing();
  const World other = sharing();
  const DevicePointer there = owner.device(64);
  CuIpcMemory handle;
  REQUIRE(owner.d.ipc_get_mem_handle(&handle, there) == Cu::kSuccess);
  DevicePointer here = 0;
  // By the process that made it; of a pool; of the host; of nobody.
  CHECK(owner.d.ipc_open_mem_handle(&here, handle, 0) == Cu::kInvalidContext);
  CuIpcMemory none;
  DevicePointer pooled = 0;
  REQUIRE(owner.d.mem_alloc_async(&pooled, 64, {}) == Cu::kSuccess);
  CHECK(owner.d.ipc_get_mem_handle(&none, pooled) == Cu::kInvalidValue);
  CHECK(owner.d.ipc_get_mem_handle(&none, address(owner.pinned<int>(4))) == Cu::kInvalidValue);
  CHECK(other.d.ipc_open_mem_handle(&here, CuIpcMemory{}, 0) == Cu::kInvalidHandle);
  const World alone;
  CHECK(alone.d.ipc_open_mem_handle(&here, handle, 0) == Cu::kNotSupported);

  // Freed while it is mapped: whoever reads it then is told, and nobody maps it any more.
  REQUIRE(other.d.ipc_open_mem_handle(&here, handle, 0) == Cu::kSuccess);
  auto* copy = other.pinned<std::byte>(64);
  const CuStream stream = other.stream();
  other.driver.control->pause();
  REQUIRE(other.d.memcpy_async(address(copy), here, 64, stream) == Cu::kSuccess);
  REQUIRE(owner.d.mem_free(there) == Cu::kSuccess);
  other.driver.control->resume();
  CHECK(other.d.stream_synchronize(stream) == Cu::kIllegalAddress);
  const World third = sharing();
  CHECK(third.d.ipc_open_mem_handle(&here, handle, 0) == Cu::kInvalidHandle);
}

TEST_CASE("memory outlives the process that has it mapped no more, but its handle does not") {
  CuIpcMemory handle;
  const World other = sharing();
  DevicePointer here = 0;
  auto* copy = other.pinned<std::uint8_t>(64);
  {
    const World owner = sharing();
    const DevicePointer there = owner.device(64);
    const CuStream stream = owner.stream();
    REQUIRE(owner.d.memset_d8_async(there, 5, 64, stream) == Cu::kSuccess);
    REQUIRE(owner.d.stream_synchronize(stream) == Cu::kSuccess);
    REQUIRE(owner.d.ipc_get_mem_handle(&handle, there) == Cu::kSuccess);
    CuContext context;
    REQUIRE(other.d.device_primary_ctx_retain(&context, 0) == Cu::kSuccess);
    REQUIRE(other.d.ctx_set_current(context) == Cu::kSuccess);
    REQUIRE(other.d.ipc_open_mem_handle(&here, handle, 0) == Cu::kSuccess);
  }
  const CuStream stream = other.stream();
  REQUIRE(other.d.memcpy_async(address(copy), here, 64, stream) == Cu::kSuccess);
  REQUIRE(other.d.stream_synchronize(stream) == Cu::kSuccess);
  CHECK(copy[63] == 5);
  const World late = sharing();
  CHECK(late.d.ipc_open_mem_handle(&here, handle, 0) == Cu::kInvalidHandle);
}

}  // namespace
}  // namespace holdfast::device
