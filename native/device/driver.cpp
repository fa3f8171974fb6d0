#include "device/driver.h"

#include <dlfcn.h>

#include <string>

namespace holdfast::device {
namespace {

// cuLaunchKernel and the two IPC calls take their structures in pieces or by value.
using LaunchKernel = Cu(CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CuStream, void**, void**);
using IpcOpenMemory = Cu(DevicePointer*, CuIpcMemory, unsigned);
using IpcOpenEvent = Cu(CuEvent*, CuIpcEvent);

// Looks functions up by the names that the driver's library exports, which carry the version of
// their ABI (`_v2`): a function that is found has the signature that the table declares.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Signature>
  void find(const char* name, std::function<Signature>& call) {
    call = find<Signature>(name);
  }

  template <class Signature>
  Signature* find(const char* name) {
    void* symbol = dlsym(library_, name);
    if (symbol == nullptr && missing_.empty()) missing_ = name;
    return reinterpret_cast<Signature*>(symbol);
  }

  // The first function that was missing; empty when none was.
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

void find_devices(Symbols& symbols, CudaDriver& d) {
  symbols.find("cuInit", d.init);
  symbols.find("cuDriverGetVersion", d.driver_get_version);
  symbols.find("cuGetErrorName", d.get_error_name);
  symbols.find("cuGetErrorString", d.get_error_string);
  symbols.find("cuDeviceGetCount", d.device_get_count);
  symbols.find("cuDeviceGet", d.device_get);
  symbols.find("cuDeviceGetName", d.device_get_name);
  symbols.find("cuDeviceGetUuid_v2", d.device_get_uuid);
  symbols.find("cuDeviceGetAttribute", d.device_get_attribute);
  symbols.find("cuDeviceTotalMem_v2", d.device_total_mem);
  symbols.find("cuDeviceCanAccessPeer", d.device_can_access_peer);
  symbols.find("cuDeviceGetDefaultMemPool", d.device_get_default_mem_pool);
  symbols.find("cuMemPoolSetAttribute", d.mem_pool_set_attribute);
  symbols.find("cuDevicePrimaryCtxRetain", d.device_primary_ctx_retain);
  symbols.find("cuDevicePrimaryCtxRelease_v2", d.device_primary_ctx_release);
  symbols.find("cuDevicePrimaryCtxGetState", d.device_primary_ctx_get_state);
  symbols.find("cuCtxSetCurrent", d.ctx_set_current);
  symbols.find("cuCtxGetCurrent", d.ctx_get_current);
  symbols.find("cuCtxGetDevice", d.ctx_get_device);
  symbols.find("cuCtxEnablePeerAccess", d.ctx_enable_peer_access);
}

void find_streams(Symbols& symbols, CudaDriver& d) {
  symbols.find("cuStreamCreateWithPriority", d.stream_create_with_priority);
  symbols.find("cuStreamDestroy_v2", d.stream_destroy);
  symbols.find("cuStreamQuery", d.stream_query);
  symbols.find("cuStreamSynchronize", d.stream_synchronize);
  symbols.find("cuStreamWaitEvent", d.stream_wait_event);
  symbols.find("cuStreamIsCapturing", d.stream_is_capturing);
  symbols.find("cuStreamWaitValue32_v2", d.stream_wait_value32);
  symbols.find("cuStreamWriteValue32_v2", d.stream_write_value32);
  symbols.find("cuLaunchHostFunc", d.launch_host_func);
  symbols.find("cuEventCreate", d.event_create);
  symbols.find("cuEventDestroy_v2", d.event_destroy);
  symbols.find("cuEventRecord", d.event_record);
  symbols.find("cuEventQuery", d.event_query);
  symbols.find("cuEventSynchronize", d.event_synchronize);
  symbols.find("cuEventElapsedTime", d.event_elapsed_time);
}

void find_memory(Symbols& symbols, CudaDriver& d) {
  symbols.find("cuMemAlloc_v2", d.mem_alloc);
  symbols.find("cuMemFree_v2", d.mem_free);
  symbols.find("cuMemAllocAsync", d.mem_alloc_async);
  symbols.find("cuMemFreeAsync", d.mem_free_async);
  symbols.find("cuMemGetInfo_v2", d.mem_get_info);
  symbols.find("cuMemHostAlloc", d.mem_host_alloc);
  symbols.find("cuMemFreeHost", d.mem_free_host);
  symbols.find("cuMemHostRegister_v2", d.mem_host_register);
  symbols.find("cuMemHostUnregister", d.mem_host_unregister);
  symbols.find("cuMemHostGetDevicePointer_v2", d.mem_host_get_device_pointer);
  symbols.find("cuMemcpyAsync", d.memcpy_async);
  symbols.find("cuMemsetD8Async", d.memset_d8_async);
  symbols.find("cuPointerGetAttribute", d.pointer_get_attribute);
  symbols.find("cuIpcGetMemHandle", d.ipc_get_mem_handle);
  symbols.find("cuIpcCloseMemHandle", d.ipc_close_mem_handle);
  symbols.find("cuIpcGetEventHandle", d.ipc_get_event_handle);
  if (auto* open = symbols.find<IpcOpenMemory>("cuIpcOpenMemHandle_v2")) {
    d.ipc_open_mem_handle = [open](DevicePointer* memory, const CuIpcMemory& handle,
                                   unsigned flags) { return open(memory, handle, flags); };
  }
  if (auto* open = symbols.find<IpcOpenEvent>("cuIpcOpenEventHandle")) {
    d.ipc_open_event_handle = [open](CuEvent* event, const CuIpcEvent& handle) {
      return open(event, handle);
    };
  }
}

void find_kernels(Symbols& symbols, CudaDriver& d) {
  symbols.find("cuModuleLoadData", d.module_load_data);
  symbols.find("cuModuleUnload", d.module_unload);
  symbols.find("cuModuleGetFunction", d.module_get_function);
  symbols.find("cuOccupancyMaxActiveBlocksPerMultiprocessor", d.occupancy_max_active_blocks);
  if (auto* launch = symbols.find<LaunchKernel>("cuLaunchKernel")) {
    d.launch_kernel = [launch](CuFunction function, LaunchGrid blocks, LaunchGrid threads,
                               unsigned shared_bytes, CuStream stream, void** arguments) {
      return launch(function, blocks.x, blocks.y, blocks.z, threads.x, threads.y, threads.z,
                    shared_bytes, stream, arguments, nullptr);
    };
  }
}

bool is_lacking(Cu result) {
  return result == Cu::kNotSupported || result == Cu::kNoDevice || result == Cu::kNoBinaryForGpu ||
         result == Cu::kInvalidDevice || result == Cu::kStreamCaptureUnsupported;
}

}  // namespace

Result<DriverTable> open_driver(const char* library) {
  // The library is never unloaded: that would crash the process while the driver's threads run.
  void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (opened == nullptr) {
    // dlerror() is per thread with glibc and musl.
    const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe)
    return Status(Code::kUnsupported,
                  std::string("no CUDA driver: ") + (reason == nullptr ? library : reason));
  }
  Symbols symbols(opened);
  auto table = std::make_shared<CudaDriver>();
  find_devices(symbols, *table);
  find_streams(symbols, *table);
  find_memory(symbols, *table);
  find_kernels(symbols, *table);
  if (!symbols.missing().empty()) {
    return Status(Code::kUnsupported, std::string(library) + " has no " + symbols.missing() +
                                          ": a CUDA driver of version 12.0 or later is needed");
  }
  if (const Cu started = table->init(0); started != Cu::kSuccess) {
    return Status(Code::kUnsupported,
                  check(*table, started, "the CUDA driver does not start").message());
  }
  return DriverTable(std::move(table));
}

Status check(const CudaDriver& driver, Cu result, std::string_view what) {
  if (result == Cu::kSuccess) return Status::ok();
  std::string text(what);
  const char* part = nullptr;
  if (driver.get_error_name(result, &part) == Cu::kSuccess && part != nullptr) {
    text += std::string(": ") + part;
  } else {
    text += ": CUDA error " + std::to_string(static_cast<int>(result));
  }
  part = nullptr;
  if (driver.get_error_string(result, &part) == Cu::kSuccess && part != nullptr) {
    text += std::string(" (") + part + ")";
  }
  return {is_lacking(result) ? Code::kUnsupported : Code::kSystem, text};
}

}  // namespace holdfast::device
