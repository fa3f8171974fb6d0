// The CUDA driver API as a table of the functions that we use, under our names, without a header or
// library of CUDA. open_driver() fills it from the driver's library; emulated_driver.h fills the
// same table with a device made of host memory. No library is opened before open_driver() is
// called.
//
// Numbers, layouts and signatures are the driver's ABI: docs.nvidia.com/cuda/cuda-driver-api.
// Why: docs/decisions/0079-the-cuda-driver-is-a-table.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/result.h"

namespace holdfast::device {

// CUresult: the values that we tell apart; all other values are errors, too.
enum class Cu : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kUnknown = 999,
};

// CUdeviceptr; with unified addressing it equals the pointer that kernels see.
using DevicePointer = std::uint64_t;
// CUdevice: an ordinal that the driver gives out.
using DeviceId = int;

// Opaque handles; each has its own type, so that they are not mixed up.
template <class Tag>
struct CuHandle {
  void* value = nullptr;
  friend bool operator==(CuHandle, CuHandle) = default;
};
using CuContext = CuHandle<struct ContextTag>;
using CuStream = CuHandle<struct StreamTag>;
using CuEvent = CuHandle<struct EventTag>;
using CuModule = CuHandle<struct ModuleTag>;
using CuFunction = CuHandle<struct FunctionTag>;
static_assert(sizeof(CuStream) == sizeof(void*));

// cudaStreamLegacy and cudaStreamPerThread, as frameworks name their default streams.
inline CuStream legacy_stream() { return {reinterpret_cast<void*>(1)}; }
inline CuStream per_thread_stream() { return {reinterpret_cast<void*>(2)}; }

struct CuUuid {
  std::array<std::byte, 16> bytes{};
  friend bool operator==(const CuUuid&, const CuUuid&) = default;
};
// Handles that another process of the same host can open.
struct CuIpcMemory {
  std::array<std::byte, 64> bytes{};
};
struct CuIpcEvent {
  std::array<std::byte, 64> bytes{};
};

// CUdevice_attribute.
enum class Attribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxSharedMemoryPerBlock = 8,
  kMultiprocessors = 16,
  kUnifiedAddressing = 41,
  kMajor = 75,
  kMinor = 76,
  kMemoryPools = 115,
};
// CUpointer_attribute.
enum class PointerAttribute : int {
  kContext = 1,
  kMemoryType = 2,
  kBufferId = 7,  // unique per allocation, within the process
  kDevice = 9,
  kRangeStart = 11,
  kRangeBytes = 12,
};
// CUmemorytype: values of PointerAttribute::kMemoryType.
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;
// CUstreamCaptureStatus.
inline constexpr int kNotCapturing = 0;

inline constexpr unsigned kStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventNoTiming = 2;       // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kEventInterprocess = 4;   // CU_EVENT_INTERPROCESS
inline constexpr unsigned kHostPortable = 1;        // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kHostDeviceMap = 2;       // CU_MEMHOSTALLOC_DEVICEMAP
inline constexpr unsigned kWaitGreaterOrEqual = 0;  // CU_STREAM_WAIT_VALUE_GEQ, cyclic
inline constexpr unsigned kWaitEqual = 1;           // CU_STREAM_WAIT_VALUE_EQ
inline constexpr unsigned kIpcLazyPeerAccess = 1;   // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
inline constexpr int kPoolReleaseThreshold = 4;     // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

struct LaunchGrid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

// Any thread may call any function; a function that takes no stream or event works in the context
// that is current on the calling thread. Names are the driver's without `cu`.
struct CudaDriver {
  template <class Signature>
  using Call = std::function<Signature>;

  Call<Cu(unsigned flags)> init;
  Call<Cu(int* version)> driver_get_version;
  Call<Cu(Cu error, const char** text)> get_error_name;
  Call<Cu(Cu error, const char** text)> get_error_string;

  Call<Cu(int* count)> device_get_count;
  Call<Cu(DeviceId* device, int ordinal)> device_get;
  Call<Cu(char* name, int length, DeviceId device)> device_get_name;
  Call<Cu(CuUuid* uuid, DeviceId device)> device_get_uuid;
  Call<Cu(int* value, Attribute attribute, DeviceId device)> device_get_attribute;
  Call<Cu(std::size_t* bytes, DeviceId device)> device_total_mem;
  Call<Cu(int* can, DeviceId device, DeviceId peer)> device_can_access_peer;
  Call<Cu(void** pool, DeviceId device)> device_get_default_mem_pool;
  Call<Cu(void* pool, int attribute, void* value)> mem_pool_set_attribute;

  Call<Cu(CuContext* context, DeviceId device)> device_primary_ctx_retain;
  Call<Cu(DeviceId device)> device_primary_ctx_release;
  Call<Cu(DeviceId device, unsigned* flags, int* active)> device_primary_ctx_get_state;
  Call<Cu(CuContext context)> ctx_set_current;
  Call<Cu(CuContext* context)> ctx_get_current;
  Call<Cu(DeviceId* device)> ctx_get_device;
  Call<Cu(CuContext peer, unsigned flags)> ctx_enable_peer_access;

  Call<Cu(CuStream* stream, unsigned flags, int priority)> stream_create_with_priority;
  Call<Cu(CuStream stream)> stream_destroy;
  Call<Cu(CuStream stream)> stream_query;
  Call<Cu(CuStream stream)> stream_synchronize;
  Call<Cu(CuStream stream, CuEvent event, unsigned flags)> stream_wait_event;
  Call<Cu(CuStream stream, int* status)> stream_is_capturing;
  Call<Cu(CuStream stream, DevicePointer at, std::uint32_t value, unsigned flags)>
      stream_wait_value32;
  Call<Cu(CuStream stream, DevicePointer at, std::uint32_t value, unsigned flags)>
      stream_write_value32;
  // `call` must use no function of this table, and is not called when the stream has failed.
  Call<Cu(CuStream stream, void (*call)(void*), void* argument)> launch_host_func;

  Call<Cu(CuEvent* event, unsigned flags)> event_create;
  Call<Cu(CuEvent event)> event_destroy;
  Call<Cu(CuEvent event, CuStream stream)> event_record;
  Call<Cu(CuEvent event)> event_query;
  Call<Cu(CuEvent event)> event_synchronize;
  Call<Cu(float* ms, CuEvent from, CuEvent to)> event_elapsed_time;

  Call<Cu(DevicePointer* memory, std::size_t bytes)> mem_alloc;
  Call<Cu(DevicePointer memory)> mem_free;
  Call<Cu(DevicePointer* memory, std::size_t bytes, CuStream stream)> mem_alloc_async;
  Call<Cu(DevicePointer memory, CuStream stream)> mem_free_async;
  Call<Cu(std::size_t* free, std::size_t* total)> mem_get_info;
  Call<Cu(void** memory, std::size_t bytes, unsigned flags)> mem_host_alloc;
  Call<Cu(void* memory)> mem_free_host;
  Call<Cu(void* memory, std::size_t bytes, unsigned flags)> mem_host_register;
  Call<Cu(void* memory)> mem_host_unregister;
  Call<Cu(DevicePointer* device, void* host, unsigned flags)> mem_host_get_device_pointer;
  // Copies in any direction: unified addressing tells which memory an address belongs to.
  Call<Cu(DevicePointer to, DevicePointer from, std::size_t bytes, CuStream stream)> memcpy_async;
  Call<Cu(DevicePointer to, unsigned char value, std::size_t bytes, CuStream stream)>
      memset_d8_async;
  Call<Cu(void* value, PointerAttribute attribute, DevicePointer pointer)> pointer_get_attribute;

  // True for an emulated device: kernels are found by name, without an image.
  bool runs_rows = false;
  Call<Cu(CuModule* module, const void* image)> module_load_data;
  Call<Cu(CuModule module)> module_unload;
  Call<Cu(CuFunction* function, CuModule module, const char* name)> module_get_function;
  Call<Cu(CuFunction function, LaunchGrid blocks, LaunchGrid threads, unsigned shared_bytes,
          CuStream stream, void** arguments)>
      launch_kernel;
  Call<Cu(int* blocks, CuFunction function, int threads, std::size_t shared_bytes)>
      occupancy_max_active_blocks;

  Call<Cu(CuIpcMemory* handle, DevicePointer memory)> ipc_get_mem_handle;
  Call<Cu(DevicePointer* memory, const CuIpcMemory& handle, unsigned flags)> ipc_open_mem_handle;
  Call<Cu(DevicePointer memory)> ipc_close_mem_handle;
  Call<Cu(CuIpcEvent* handle, CuEvent event)> ipc_get_event_handle;
  Call<Cu(CuEvent* event, const CuIpcEvent& handle)> ipc_open_event_handle;
};

// Owners: the code that opened the table, and the devices made from it.
using DriverTable = std::shared_ptr<const CudaDriver>;

// Opens and initialises the system's driver. kUnsupported when there is no libcuda.so.1, when the
// driver is too old (the message names the function it lacks), or when it refuses to start (no
// device, no rights). `library`: a file name as dlopen() takes it. Any thread; loads nothing twice.
Result<DriverTable> open_driver(const char* library = "libcuda.so.1");

// ok, or `what` with the driver's name and text of the error. Out of memory and lost devices are
// kSystem; operations that a device cannot do are kUnsupported.
Status check(const CudaDriver& driver, Cu result, std::string_view what);

}  // namespace holdfast::device
