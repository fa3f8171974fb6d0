#include "device/emulated_driver.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>
#include <vector>

#include "device/emulated_machine.h"

namespace holdfast::device {
namespace {

using Memory = EmulatedMachine::Memory;
using Machine = std::shared_ptr<EmulatedMachine>;

constexpr int kVersion = 12000;
constexpr int kProcessors = 4;

const void* memory_at(DevicePointer at) {
  return reinterpret_cast<const void*>(at);  // NOLINT(performance-no-int-to-ptr)
}
void* writable_at(DevicePointer at) {
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
}
DevicePointer pointer_of(const void* memory) { return reinterpret_cast<DevicePointer>(memory); }

const char* name_of(Cu error) {
  switch (error) {
    case Cu::kSuccess: return "CUDA_SUCCESS";
    case Cu::kInvalidValue: return "CUDA_ERROR_INVALID_VALUE";
    case Cu::kOutOfMemory: return "CUDA_ERROR_OUT_OF_MEMORY";
    case Cu::kInvalidDevice: return "CUDA_ERROR_INVALID_DEVICE";
    case Cu::kInvalidContext: return "CUDA_ERROR_INVALID_CONTEXT";
    case Cu::kInvalidHandle: return "CUDA_ERROR_INVALID_HANDLE";
    case Cu::kNotFound: return "CUDA_ERROR_NOT_FOUND";
    case Cu::kNotReady: return "CUDA_ERROR_NOT_READY";
    case Cu::kIllegalAddress: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case Cu::kLaunchFailed: return "CUDA_ERROR_LAUNCH_FAILED";
    case Cu::kNotSupported: return "CUDA_ERROR_NOT_SUPPORTED";
    case Cu::kStreamCaptureUnsupported: return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    default: return nullptr;
  }
}

// The table's functions own the machine; enqueued steps do not, because the machine owns them.

// Whether the device has not failed and the thread has a context.
Cu ready(const Machine& m) {
  if (const Cu failed = m->failure(); failed != Cu::kSuccess) return failed;
  return m->current() < 0 ? Cu::kInvalidContext : Cu::kSuccess;
}

bool has(const Machine& m, DeviceId device) {
  return device >= 0 && device < m->settings().devices;
}

void add_devices(CudaDriver& d, const Machine& m) {
  d.init = [](unsigned) { return Cu::kSuccess; };
  d.driver_get_version = [](int* version) { return *version = kVersion, Cu::kSuccess; };
  d.get_error_name = [](Cu error, const char** text) {
    *text = name_of(error);
    return *text == nullptr ? Cu::kInvalidValue : Cu::kSuccess;
  };
  d.get_error_string = [](Cu, const char** text) {
    *text = "emulated device";
    return Cu::kSuccess;
  };
  d.device_get_count = [m](int* count) { return *count = m->settings().devices, Cu::kSuccess; };
  d.device_get = [m](DeviceId* device, int ordinal) {
    return has(m, *device = ordinal) ? Cu::kSuccess : Cu::kInvalidDevice;
  };
  d.device_get_name = [](char* name, int length, DeviceId) {
    constexpr std::string_view kName = "emulated device";
    const std::size_t count = std::min(kName.size(), static_cast<std::size_t>(length) - 1);
    std::memcpy(name, kName.data(), count);
    name[count] = '\0';
    return Cu::kSuccess;
  };
  d.device_get_uuid = [](CuUuid* uuid, DeviceId device) {
    *uuid = {};
    uuid->bytes[0] = static_cast<std::byte>(device);
    return Cu::kSuccess;
  };
  d.device_get_attribute = [](int* value, Attribute attribute, DeviceId) {
    switch (attribute) {
      case Attribute::kMaxThreadsPerBlock: *value = 1024; break;
      case Attribute::kMaxSharedMemoryPerBlock: *value = 48 * 1024; break;
      case Attribute::kMultiprocessors: *value = kProcessors; break;
      case Attribute::kMajor: *value = 8; break;
      case Attribute::kMinor: *value = 0; break;
      case Attribute::kUnifiedAddressing:
      case Attribute::kMemoryPools: *value = 1; break;
    }
    return Cu::kSuccess;
  };
  d.device_total_mem = [m](std::size_t* bytes, DeviceId) {
    return *bytes = m->settings().memory_bytes, Cu::kSuccess;
  };
  d.device_can_access_peer = [](int* can, DeviceId, DeviceId) { return *can = 0, Cu::kSuccess; };
  d.device_get_default_mem_pool = [](void**, DeviceId) { return Cu::kNotSupported; };
  d.mem_pool_set_attribute = [](void*, int, void*) { return Cu::kNotSupported; };
}

// A context's handle is its device's number plus 1.
void add_contexts(CudaDriver& d, const Machine& m) {
  const auto context_of = [](DeviceId device) {
    return CuContext{writable_at(static_cast<DevicePointer>(device) + 1)};
  };
  d.device_primary_ctx_retain = [m, context_of](CuContext* context, DeviceId device) {
    if (!has(m, device)) return Cu::kInvalidDevice;
    return *context = context_of(device), Cu::kSuccess;
  };
  d.device_primary_ctx_release = [](DeviceId) { return Cu::kSuccess; };
  d.device_primary_ctx_get_state = [](DeviceId, unsigned* flags, int* active) {
    return *flags = 0, *active = 1, Cu::kSuccess;
  };
  d.ctx_set_current = [m](CuContext context) {
    m->set_current(static_cast<DeviceId>(pointer_of(context.value)) - 1);
    return Cu::kSuccess;
  };
  d.ctx_get_current = [m, context_of](CuContext* context) {
    const DeviceId device = m->current();
    return *context = device < 0 ? CuContext{} : context_of(device), Cu::kSuccess;
  };
  d.ctx_get_device = [m](DeviceId* device) {
    *device = m->current();
    return *device < 0 ? Cu::kInvalidContext : Cu::kSuccess;
  };
  d.ctx_enable_peer_access = [](CuContext, unsigned) { return Cu::kNotSupported; };
}

// `at` is in pinned host memory; any thread may change the value.
std::atomic_ref<std::uint32_t> value_at(DevicePointer at) {
  return std::atomic_ref(*static_cast<std::uint32_t*>(writable_at(at)));
}

void add_values(CudaDriver& d, const Machine& m) {
  d.stream_wait_value32 = [m](CuStream stream, DevicePointer at, std::uint32_t value,
                              unsigned flags) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    const bool known = flags == kWaitGreaterOrEqual || flags == kWaitEqual;
    if (!known || at % sizeof value != 0 || !m->find(at, sizeof value)) return Cu::kInvalidValue;
    return m->enqueue(stream, [m = m.get(), at, value, flags]() -> std::optional<Cu> {
      if (!m->find(at, sizeof value)) return Cu::kIllegalAddress;
      // acquire: sees all writes before the value
      const std::uint32_t seen = value_at(at).load(std::memory_order_acquire);
      const bool there =
          flags == kWaitEqual ? seen == value : static_cast<std::int32_t>(seen - value) >= 0;
      return there ? std::optional(Cu::kSuccess) : std::nullopt;
    });
  };
  d.stream_write_value32 = [m](CuStream stream, DevicePointer at, std::uint32_t value, unsigned) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    if (at % sizeof value != 0 || !m->find(at, sizeof value)) return Cu::kInvalidValue;
    return m->enqueue(stream, [m = m.get(), at, value]() -> std::optional<Cu> {
      if (!m->find(at, sizeof value)) return Cu::kIllegalAddress;
      // release: publishes the stream's work so far
      value_at(at).store(value, std::memory_order_release);
      return Cu::kSuccess;
    });
  };
  d.launch_host_func = [m](CuStream stream, void (*call)(void*), void* argument) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    return m->enqueue(stream, [call, argument]() -> std::optional<Cu> {
      call(argument);
      return Cu::kSuccess;
    });
  };
}

void add_streams(CudaDriver& d, const Machine& m) {
  d.stream_create_with_priority = [m](CuStream* stream, unsigned, int) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    return *stream = m->make_stream(), Cu::kSuccess;
  };
  d.stream_destroy = [m](CuStream stream) { return m->destroy_stream(stream); };
  d.stream_query = [m](CuStream stream) { return m->query(stream); };
  d.stream_synchronize = [m](CuStream stream) { return m->synchronize(stream); };
  d.stream_wait_event = [m](CuStream stream, CuEvent event, unsigned) {
    return m->wait(stream, event);
  };
  d.stream_is_capturing = [m](CuStream stream, int* status) {
    return *status = m->is_capturing(stream) ? 1 : kNotCapturing, m->failure();
  };
  d.event_create = [m](CuEvent* event, unsigned) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    return *event = m->make_event(), Cu::kSuccess;
  };
  d.event_destroy = [m](CuEvent event) { return m->destroy_event(event); };
  d.event_record = [m](CuEvent event, CuStream stream) { return m->record(event, stream); };
  d.event_query = [m](CuEvent event) { return m->query(event); };
  d.event_synchronize = [m](CuEvent event) { return m->synchronize(event); };
  d.event_elapsed_time = [m](float* ms, CuEvent from, CuEvent to) {
    return m->elapsed(ms, from, to);
  };
}

void add_memory(CudaDriver& d, const Machine& m) {
  d.mem_alloc = [m](DevicePointer* memory, std::size_t bytes) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    return m->allocate(Memory::kDevice, bytes, m->settings().exports, *memory);
  };
  d.mem_free = [m](DevicePointer memory) { return m->release(memory, Memory::kDevice); };
  // Memory of a pool cannot be shared with other processes.
  d.mem_alloc_async = [m](DevicePointer* memory, std::size_t bytes, CuStream) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    return m->allocate(Memory::kDevice, bytes, false, *memory);
  };
  d.mem_free_async = [m](DevicePointer memory, CuStream stream) {
    return m->release_later(memory, stream);
  };
  d.mem_get_info = [m](std::size_t* free, std::size_t* total) {
    *total = m->settings().memory_bytes;
    *free = *total - std::min<std::size_t>(*total, m->device_bytes_used());
    return ready(m);
  };
  d.mem_host_alloc = [m](void** memory, std::size_t bytes, unsigned) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    DevicePointer at = 0;
    const Cu result = m->allocate(Memory::kPinned, bytes, false, at);
    return *memory = writable_at(at), result;
  };
  d.mem_free_host = [m](void* memory) { return m->release(pointer_of(memory), Memory::kPinned); };
  d.mem_host_register = [m](void* memory, std::size_t bytes, unsigned) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    return m->adopt(memory, bytes);
  };
  d.mem_host_unregister = [m](void* memory) {
    return m->release(pointer_of(memory), Memory::kRegistered);
  };
  d.mem_host_get_device_pointer = [m](DevicePointer* device, void* host, unsigned) {
    const auto found = m->find(pointer_of(host), 1);
    if (!found || found->second.on_device()) return Cu::kInvalidValue;
    return *device = pointer_of(host), Cu::kSuccess;
  };
}

void add_copies(CudaDriver& d, const Machine& m) {
  d.memcpy_async = [m](DevicePointer to, DevicePointer from, std::size_t bytes, CuStream stream) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    if (bytes == 0) return Cu::kSuccess;
    if (!m->find(to, bytes) || !m->find(from, bytes)) return Cu::kInvalidValue;
    return m->enqueue(stream, [m = m.get(), to, from, bytes]() -> std::optional<Cu> {
      // Both ranges are held during the copy: another thread may free them.
      const auto target = m->find(to, bytes);
      const auto source = m->find(from, bytes);
      if (!target || !source) return Cu::kIllegalAddress;
      std::memmove(writable_at(to), memory_at(from), bytes);
      if (target->second.on_device() != source->second.on_device()) m->count_bus(bytes);
      return Cu::kSuccess;
    });
  };
  d.memset_d8_async = [m](DevicePointer to, unsigned char value, std::size_t bytes,
                          CuStream stream) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    if (bytes == 0) return Cu::kSuccess;
    if (!m->find(to, bytes)) return Cu::kInvalidValue;
    return m->enqueue(stream, [m = m.get(), to, value, bytes]() -> std::optional<Cu> {
      const auto target = m->find(to, bytes);
      if (!target) return Cu::kIllegalAddress;
      std::memset(writable_at(to), value, bytes);
      return Cu::kSuccess;
    });
  };
  d.pointer_get_attribute = [m](void* value, PointerAttribute attribute, DevicePointer pointer) {
    const auto found = m->find(pointer, 1);
    if (!found) return Cu::kInvalidValue;
    const auto& [start, range] = *found;
    const bool on_device = range.on_device();
    switch (attribute) {
      case PointerAttribute::kMemoryType:
        *static_cast<unsigned*>(value) = on_device ? kMemoryTypeDevice : kMemoryTypeHost;
        return Cu::kSuccess;
      case PointerAttribute::kDevice: *static_cast<int*>(value) = range.device; return Cu::kSuccess;
      case PointerAttribute::kRangeStart:
        *static_cast<DevicePointer*>(value) = start;
        return Cu::kSuccess;
      case PointerAttribute::kRangeBytes:
        *static_cast<std::size_t*>(value) = range.bytes;
        return Cu::kSuccess;
      case PointerAttribute::kBufferId:
        *static_cast<std::uint64_t*>(value) = range.number;
        return Cu::kSuccess;
      default: return Cu::kNotSupported;
    }
  };
}

// Every module holds all kernels; a function's handle is the address of its KernelRow.
void add_kernels(CudaDriver& d, const Machine& m) {
  d.runs_rows = true;
  d.module_load_data = [](CuModule* module, const void* image) {
    if (image == nullptr) return Cu::kInvalidImage;
    return *module = {const_cast<void*>(image)}, Cu::kSuccess;
  };
  d.module_unload = [](CuModule) { return Cu::kSuccess; };
  d.module_get_function = [m](CuFunction* function, CuModule, const char* name) {
    for (const KernelRow& row : m->settings().kernels) {
      if (row.name == name) return function->value = const_cast<KernelRow*>(&row), Cu::kSuccess;
    }
    return Cu::kNotFound;
  };
  d.launch_kernel = [m](CuFunction function, LaunchGrid blocks, LaunchGrid threads, unsigned,
                        CuStream stream, void** arguments) {
    if (const Cu not_ready = ready(m); not_ready != Cu::kSuccess) return not_ready;
    const auto* row = static_cast<const KernelRow*>(function.value);
    const auto* begin = static_cast<const std::byte*>(arguments[0]);
    std::vector<std::byte> argument(begin, begin + row->argument_bytes);
    return m->enqueue(stream, [row, blocks, threads, argument = std::move(argument)] {
      row->emulate({blocks.x, threads.x}, argument.data());
      return std::optional(Cu::kSuccess);
    });
  };
  d.occupancy_max_active_blocks = [](int* blocks, CuFunction, int, std::size_t) {
    return *blocks = 1, Cu::kSuccess;
  };
  d.ipc_get_event_handle = [](CuIpcEvent*, CuEvent) { return Cu::kNotSupported; };
  d.ipc_open_event_handle = [](CuEvent*, const CuIpcEvent&) { return Cu::kNotSupported; };
}

void add_sharing(CudaDriver& d, const Machine& m) {
  const auto may = [m] {
    const Cu not_ready = ready(m);
    return not_ready == Cu::kSuccess && !m->settings().exports ? Cu::kNotSupported : not_ready;
  };
  d.ipc_get_mem_handle = [m, may](CuIpcMemory* handle, DevicePointer memory) {
    const Cu refused = may();
    return refused != Cu::kSuccess ? refused : m->export_memory(memory, *handle);
  };
  d.ipc_open_mem_handle = [m, may](DevicePointer* memory, const CuIpcMemory& handle, unsigned) {
    const Cu refused = may();
    return refused != Cu::kSuccess ? refused : m->import_memory(handle, *memory);
  };
  d.ipc_close_mem_handle = [m](DevicePointer memory) { return m->close_memory(memory); };
}

}  // namespace

EmulatedDriver make_emulated_driver(const EmulatedSettings& settings) {
  const auto machine = std::make_shared<EmulatedMachine>(settings);
  auto table = std::make_shared<CudaDriver>();
  add_devices(*table, machine);
  add_contexts(*table, machine);
  add_streams(*table, machine);
  add_values(*table, machine);
  add_memory(*table, machine);
  add_copies(*table, machine);
  add_kernels(*table, machine);
  add_sharing(*table, machine);
  return {std::move(table), machine};
}

}  // namespace holdfast::device
