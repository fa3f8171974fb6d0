/* Holdfast's C interface for the memory of GPUs: the calls of holdfast.h, on device memory and in
 * the order of a CUDA stream.
 *
 * hf_group_on_device() makes a second handle of a group. The collectives, sends and receives of
 * holdfast.h that are called on it take memory of that device, begin after all work that its stream
 * was given before, and return at once where `work` is not NULL. For the host, the result is there
 * when the work has ended; for a stream, behind hf_work_wait_on(). A blocking call (`work` NULL)
 * ends when the result is in device memory. All ranks call on device memory, or none does.
 *
 * Streams are what cudaStream_t and CUstream are: NULL, the legacy default stream; 1, the same;
 * 2, the per-thread one; or a handle. CUDA's headers and libraries are not needed: the driver is
 * opened when a device is first used. What is said of errors, handles and threads in holdfast.h
 * holds here.
 */
#ifndef HOLDFAST_HOLDFAST_DEVICE_H
#define HOLDFAST_HOLDFAST_DEVICE_H

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In place of a stream: all memory is ready when an op is called, nothing is waited for. */
#define HF_NO_STREAM ((void*)(intptr_t)-1)
/* In place of a device: memory of the host. */
#define HF_HOST_MEMORY (-1)

/* Set `size` to sizeof(hf_device_options) and all else to zero, which is the default of each:
 * hf_device_options devices = {sizeof devices}; New fields go where those of hf_options go: what a
 * smaller struct lacks has the default, and a larger one than this library's is refused. */
typedef struct hf_device_options {
  size_t size;
  const char* cuda_driver;     /* NULL or empty: the system's libcuda.so.1; "emulated", a device of
                                  host memory, for tests; "none" */
  uint64_t cuda_slice_bytes;   /* larger ops go through the host in such slices, 4096 to 2^30;
                                  default 4 MiB. The same on all ranks, as the next two */
  const char* cuda_ipc;        /* "auto" (default): from device to device where they reach each
                                  other; "off" */
  uint64_t cuda_ipc_min_bytes; /* from how many bytes on; default 1 MiB */
  const char* cuda_codec;      /* "auto" (default): what has a codec is encoded by the device where
                                  it can; "off": by the processor. The same on all ranks, as the
                                  next one */
  uint64_t cuda_codec_min_bytes; /* from how many bytes on; default 1 MiB */
} hf_device_options;

/* HOLDFAST_CUDA_DRIVER, HOLDFAST_CUDA_SLICE_BYTES, HOLDFAST_CUDA_IPC,
 * HOLDFAST_CUDA_IPC_MIN_BYTES, HOLDFAST_CUDA_CODEC and HOLDFAST_CUDA_CODEC_MIN_BYTES override the
 * fields; `size` must be set already. The strings are the environment's. */
hf_status hf_device_options_from_env(hf_device_options* options);
/* As hf_node_create(), which is this with `devices` NULL: the defaults. */
hf_status hf_node_create_with_devices(const hf_options* options, const hf_device_options* devices,
                                      hf_node** node);

/* The device that this memory belongs to, as the driver says; HF_HOST_MEMORY where it is none's. */
hf_status hf_device_of(hf_node* node, const void* memory, int32_t* device);

/* Makes another handle of the group, for memory of `device` (from 0 on, as cudaSetDevice() counts)
 * in the order of `stream`; one for each stream. It is freed by hf_group_free(), and the group
 * stays open until its last handle is freed or hf_group_close() is called on any. HF_UNSUPPORTED:
 * no CUDA driver. */
hf_status hf_group_on_device(hf_group* group, int32_t device, void* stream, hf_group** on_device);
/* Makes the stream wait until the op has ended and its result is in device memory, and lets the
 * host go on. Until the work has ended, the process must not call what blocks in CUDA on that
 * stream (a copy to memory that is not pinned): the driver may hold what the op still needs. An op
 * that fails sets the stream free: its error is that of hf_work_wait(), and of every later call
 * where the group has ended. HF_CONFIG_ERROR: an op on host memory; HF_UNSUPPORTED: a stream that
 * is captured into a graph. */
hf_status hf_work_wait_on(hf_work* work, void* stream);

/* ---- memory and streams, for programs that do not use CUDA themselves ---- */

/* Allocates memory, not initialised; other processes can map it, so that large ops go from device
 * to device. It is freed before the node is, when no stream uses it any more. */
hf_status hf_device_allocate(hf_node* node, int32_t device, size_t bytes, void** memory);
/* Frees what hf_device_allocate() gave. */
hf_status hf_device_release(hf_node* node, int32_t device, void* memory);
/* Copies between any memory of the device and of the host, in the order of the stream; returns when
 * the copy is done. */
hf_status hf_device_copy(hf_node* node, int32_t device, void* to, const void* from, size_t bytes,
                         void* stream);
/* Makes a stream that does not wait for the default stream. */
hf_status hf_stream_create(hf_node* node, int32_t device, void** stream);
/* Ends a stream that hf_stream_create() made. */
hf_status hf_stream_release(hf_node* node, int32_t device, void* stream);

#ifdef __cplusplus
}
#endif

#endif
