// What the programs of device memory share: buffers of the host or of CUDA device 0.
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void check(int holds, const char* what, int line) {
  if (holds) return;
  printf("rank %d, line %d: %s\n", rank, line, what);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(holds) check((holds), #holds, __LINE__)

// By the C interface, on the node that MPI runs on.
static void* node;
static int (*device_allocate)(void*, int32_t, size_t, void**);
static int (*device_release)(void*, int32_t, void*);
static int (*device_copy)(void*, int32_t, void*, const void*, size_t, void*);

static void* symbol(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  CHECK(found != NULL);
  return found;
}

static void begin(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  void* (*own_node)(void) = (void* (*)(void))symbol("hf_mpi_node");
  device_allocate = (int (*)(void*, int32_t, size_t, void**))symbol("hf_device_allocate");
  device_release = (int (*)(void*, int32_t, void*))symbol("hf_device_release");
  device_copy =
      (int (*)(void*, int32_t, void*, const void*, size_t, void*))symbol("hf_device_copy");
  int (*takes_cuda)(void) = (int (*)(void))symbol("MPIX_Query_cuda_support");
  CHECK(takes_cuda() == 1);
  node = own_node();
  CHECK(node != NULL);
}

enum { kGuard = 64 };

// `bytes` bytes with a guard on both sides.
typedef struct {
  unsigned char* all;
  size_t bytes;
  int on_device;
} Buffer;

static void put(const Buffer* buffer, const unsigned char* all) {
  if (buffer->on_device) {
    CHECK(device_copy(node, 0, buffer->all, all, buffer->bytes + 2 * kGuard, NULL) == 0);
  } else {
    memcpy(buffer->all, all, buffer->bytes + 2 * kGuard);
  }
}

static Buffer buffer_of(int on_device, size_t bytes) {
  Buffer buffer = {NULL, bytes, on_device};
  if (on_device) {
    CHECK(device_allocate(node, 0, bytes + 2 * kGuard, (void**)&buffer.all) == 0);
  } else {
    buffer.all = malloc(bytes + 2 * kGuard);
  }
  CHECK(buffer.all != NULL);
  return buffer;
}

static unsigned char* first(const Buffer* buffer) { return buffer->all + kGuard; }

static unsigned char* pattern(size_t bytes, unsigned seed) {
  unsigned char* all = malloc(bytes + 2 * kGuard);
  CHECK(all != NULL);
  for (size_t i = 0; i < bytes + 2 * kGuard; ++i) {
    all[i] = (unsigned char)((i + seed) * 2654435761u >> 13);
  }
  return all;
}

static void fill(const Buffer* buffer, unsigned seed) {
  unsigned char* all = pattern(buffer->bytes, seed);
  put(buffer, all);
  free(all);
}

// All of it, the guards as well; the caller frees it.
static unsigned char* copy_of(const Buffer* buffer) {
  unsigned char* all = malloc(buffer->bytes + 2 * kGuard);
  CHECK(all != NULL);
  if (buffer->on_device) {
    CHECK(device_copy(node, 0, all, buffer->all, buffer->bytes + 2 * kGuard, NULL) == 0);
  } else {
    memcpy(all, buffer->all, buffer->bytes + 2 * kGuard);
  }
  return all;
}

static void is_exactly(const Buffer* buffer, const unsigned char* want, int line) {
  unsigned char* got = copy_of(buffer);
  for (size_t i = 0; i < buffer->bytes + 2 * kGuard; ++i) {
    if (got[i] == want[i]) continue;
    printf("byte %ld of %zu is %d, not %d\n", (long)i - kGuard, buffer->bytes, got[i], want[i]);
    check(0, "a buffer has other bytes", line);
  }
  free(got);
}

static void drop(const Buffer* buffer) {
  if (!buffer->on_device) {
    free(buffer->all);
  } else {
    CHECK(device_release(node, 0, buffer->all) == 0);
  }
}
