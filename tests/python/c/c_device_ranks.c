/* Ranks of test_c_devices.py: the C interface on device memory, over the emulated device. The
 * argument names what to do. */
#define _POSIX_C_SOURCE 200809L /* kill(), nanosleep() */
#include <holdfast/holdfast_device.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kMostRanks = 8 };

static hf_node* node;
static hf_group* group;  /* of host memory */
static hf_group* device; /* of device 0's, in the order of `stream` */
static void* stream;
static int32_t rank, size;

#define REQUIRE(condition)                                                               \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      fprintf(stderr, "rank %" PRId32 ", line %d: %s; last error: %s\n", rank, __LINE__, \
              #condition, hf_last_error());                                              \
      exit(1);                                                                           \
    }                                                                                    \
  } while (0)
#define OK(call) REQUIRE((call) == HF_OK)

/* A call that fails with this status, and says this. */
static void refused(hf_status got, hf_status wanted, const char* text, int line) {
  if (got == wanted && strstr(hf_last_error(), text) != NULL) return;
  fprintf(stderr, "line %d: %s instead of %s with \"%s\": %s\n", line, hf_status_name(got),
          hf_status_name(wanted), text, hf_last_error());
  exit(1);
}
#define REFUSED(call, status, text) refused(call, status, text, __LINE__)

static void start(void) {
  hf_options options;
  hf_device_options devices = {sizeof devices, NULL, 0, NULL, 0, NULL, 0};
  OK(hf_options_from_env(&options));
  OK(hf_device_options_from_env(&devices));
  OK(hf_node_create_with_devices(&options, &devices, &node));
  OK(hf_group_join_env(node, "world", &group));
  rank = hf_group_rank(group);
  size = hf_group_size(group);
}

static void use_device(void) {
  OK(hf_stream_create(node, 0, &stream));
  OK(hf_group_on_device(group, 0, stream, &device));
  REQUIRE(hf_group_rank(device) == rank && hf_group_size(device) == size);
}

static void leave(void) {
  if (stream != NULL) OK(hf_stream_release(node, 0, stream));
  hf_group_free(device);
  hf_group_free(group);
  hf_node_free(node);
}

static void end(void) {
  OK(hf_barrier(group, NULL));
  OK(hf_group_close(group, 5000000000));
  leave();
}

/* `count` numbers on the host, rank's own. */
static int64_t* host_values(uint64_t count, int64_t first) {
  int64_t* values = malloc((count + 1) * sizeof *values);
  REQUIRE(values != NULL);
  for (uint64_t i = 0; i < count; ++i) values[i] = first + (int64_t)(i % 1000);
  return values;
}

static void* device_copy_of(const int64_t* values, uint64_t count) {
  void* memory = NULL;
  OK(hf_device_allocate(node, 0, count * sizeof *values, &memory));
  OK(hf_device_copy(node, 0, memory, values, count * sizeof *values, stream));
  return memory;
}

/* Whether device memory has these values; it is freed. */
static void same(void* memory, const int64_t* values, uint64_t count, int line) {
  int64_t* got = host_values(count, -1);
  OK(hf_device_copy(node, 0, got, memory, count * sizeof *got, stream));
  if (memcmp(got, values, count * sizeof *got) != 0) {
    fprintf(stderr, "rank %" PRId32 ", line %d: other values than on the host\n", rank, line);
    exit(1);
  }
  free(got);
  OK(hf_device_release(node, 0, memory));
}

typedef struct pair {
  int64_t* host;
  void* device;
  uint64_t count;
} pair;

static pair make(uint64_t count, int64_t first) {
  const pair both = {host_values(count, first), NULL, count};
  pair all = both;
  all.device = device_copy_of(both.host, count);
  return all;
}

static void match(pair p, int line) {
  same(p.device, p.host, p.count, line);
  free(p.host);
}
#define MATCH(p) match(p, __LINE__)

/* Each call twice: on host memory, and on device memory. */
static void collectives(uint64_t n) {
  const uint64_t all = n * (uint64_t)size;
  const int32_t last = size - 1;
  uint64_t even[kMostRanks], uneven[kMostRanks], given[kMostRanks];
  uint64_t total = 0;
  for (int32_t r = 0; r < size; ++r) {
    even[r] = n;
    uneven[r] = n / (uint64_t)(r + 1);
    total += uneven[r];
  }
  for (int32_t r = 0; r < size; ++r) given[r] = uneven[rank];
  pair own = make(n, rank), many = make(all, 10 * rank), out = make(n, -1), wide = make(all, -2);
  pair some = make(uneven[rank], rank), any = make(total, -3);
  pair mine = make(uneven[rank] * (uint64_t)size, -4), parts = make(total, 7 * rank);
  for (int on_device = 0; on_device < 2; ++on_device) {
    hf_group* g = on_device ? device : group;
#define AT(p) (on_device ? (p).device : (void*)(p).host)
    OK(hf_all_reduce(g, AT(own), AT(out), n, HF_I64, HF_SUM, NULL));
    OK(hf_all_gather(g, AT(out), AT(wide), n, HF_I64, NULL));
    OK(hf_reduce_scatter(g, AT(many), AT(out), n, HF_I64, HF_MAX, NULL));
    OK(hf_all_to_all(g, AT(many), AT(wide), n, HF_I64, NULL));
    OK(hf_all_to_allv(g, AT(wide), even, AT(many), even, HF_I64, NULL));
    OK(hf_all_gatherv(g, AT(some), AT(any), uneven, HF_I64, NULL));
    OK(hf_reduce_scatterv(g, AT(any), AT(some), uneven, HF_I64, HF_SUM, NULL));
    OK(hf_all_to_allv(g, AT(parts), uneven, AT(mine), given, HF_I64, NULL));
    OK(hf_gather(g, AT(own), rank == last ? AT(wide) : NULL, n, HF_I64, last, NULL));
    OK(hf_scatter(g, rank == 0 ? AT(many) : NULL, AT(out), n, HF_I64, 0, NULL));
    OK(hf_reduce(g, AT(out), rank == 0 ? AT(own) : NULL, n, HF_I64, HF_SUM, 0, NULL));
    OK(hf_broadcast(g, AT(own), n, HF_I64, 0, NULL));
    OK(hf_barrier(g, NULL));
    hf_work* sent = NULL;
    int32_t source = HF_ANY_SOURCE;
    OK(hf_send(g, AT(out), n, HF_I64, (rank + 1) % size, 3, &sent));
    OK(hf_recv(g, AT(own), n, HF_I64, (rank + last) % size, 3, &source, NULL));
    REQUIRE(source == (rank + last) % size);
    OK(hf_work_wait(sent, -1));
    hf_work_free(sent);
  }
  MATCH(own), MATCH(many), MATCH(out), MATCH(wide), MATCH(some), MATCH(any), MATCH(mine);
  MATCH(parts);
}

static void every_collective(void) {
  use_device();
  /* Nothing; less than a slice of 64 KiB; several slices with an odd end. */
  collectives(0);
  collectives(100);
  collectives(50001);
  end();
}

/* A row of ops that streams wait for, not the host. */
static void go_on(void) {
  enum { kCount = 40000 };
  use_device();
  pair a = make(kCount, rank);
  hf_work* works[5];
  int32_t ranks[kMostRanks];
  for (int i = 0; i < 5; ++i) {
    OK(hf_all_reduce(device, a.device, a.device, kCount, HF_I64, HF_SUM, &works[i]));
    OK(hf_work_wait_on(works[i], stream));
  }
  int64_t* sums = host_values(kCount, 0);
  for (int i = 0; i < kCount; ++i) {
    sums[i] = sums[i] * size + size * (size - 1) / 2;
    for (int again = 1; again < 5; ++again) sums[i] *= size;
  }
  /* Copies in the stream's order. */
  same(a.device, sums, kCount, __LINE__);
  for (int i = 0; i < 5; ++i) {
    int done = 0;
    hf_outcome outcome;
    OK(hf_work_wait(works[i], 20000000000));
    OK(hf_work_test(works[i], &done));
    OK(hf_work_outcome(works[i], &outcome));
    REQUIRE(done == 1 && hf_work_contributors(works[i], ranks, kMostRanks) == (size_t)size);
    hf_work_free(works[i]);
  }
  /* A second handle, which waits for nothing; freed before its op has ended, as the work is. */
  hf_group* other = NULL;
  OK(hf_group_on_device(group, 0, HF_NO_STREAM, &other));
  OK(hf_group_set_priority(other, 3));
  void* b = device_copy_of(sums, kCount);
  hf_work* work = NULL;
  OK(hf_all_reduce(other, b, b, kCount, HF_I64, HF_MAX, &work));
  hf_group_free(other);
  OK(hf_work_wait_on(work, stream));
  hf_work_free(work);
  same(b, sums, kCount, __LINE__);
  free(sums);
  free(a.host);
  end();
}

static void refuse(void) {
  int32_t where = 7;
  char* memory = NULL;
  int64_t here[4] = {1, 2, 3, 4};
  hf_group* none = NULL;
  hf_work* work = NULL;
  use_device();
  OK(hf_device_allocate(node, 0, sizeof here, (void**)&memory));
  OK(hf_device_of(node, memory + 8, &where));
  REQUIRE(where == 0);
  OK(hf_device_of(node, here, &where));
  REQUIRE(where == HF_HOST_MEMORY);
  REFUSED(hf_all_reduce(device, memory, here, 4, HF_I64, HF_SUM, NULL), HF_CONFIG_ERROR,
          "all_reduce: memory of the host, or of nobody among that of CUDA device 0");
  REFUSED(hf_broadcast(device, here, 4, HF_I64, 0, NULL), HF_CONFIG_ERROR, "memory of the host");
  /* So far behind it that it is in nobody's pool of memory. */
  REFUSED(hf_all_reduce(device, memory, memory, (size_t)1 << 40, HF_I64, HF_SUM, NULL),
          HF_CONFIG_ERROR, "or of nobody");
  REFUSED(hf_all_reduce(device, memory, NULL, 4, HF_I64, HF_SUM, &work), HF_CONFIG_ERROR, "");
  REFUSED(hf_broadcast(device, memory, 4, HF_I64, 9, NULL), HF_CONFIG_ERROR, "9");
  REFUSED(hf_broadcast(device, memory, 4, (hf_dtype)77, 0, NULL), HF_CONFIG_ERROR, "dtype 77");
  REFUSED(hf_group_on_device(group, 5, stream, &none), HF_CONFIG_ERROR,
          "CUDA device 5; accepted: 0 to 0");
  REFUSED(hf_group_on_device(NULL, 0, stream, &none), HF_CONFIG_ERROR, "is NULL");
  REFUSED(hf_device_copy(node, 0, here, here, 8, stream), HF_CONFIG_ERROR, "neither end");
  REFUSED(hf_device_copy(node, 0, here, memory, 8, HF_NO_STREAM), HF_CONFIG_ERROR, "HF_NO_STREAM");
  REFUSED(hf_device_allocate(node, 0, (size_t)1 << 40, (void**)&none), HF_SYSTEM,
          "allocating 1099511627776 bytes");
  OK(hf_all_reduce(group, here, here, 4, HF_I64, HF_SUM, &work));
  REFUSED(hf_work_wait_on(work, stream), HF_CONFIG_ERROR, "an op on host memory");
  OK(hf_work_wait(work, -1));
  hf_work_free(work);
  REFUSED(hf_work_wait_on(NULL, stream), HF_CONFIG_ERROR, "work is NULL");

  hf_node* second = NULL;
  hf_device_options bad = {sizeof bad, "mine", 0, NULL, 0, NULL, 0};
  REFUSED(hf_node_create_with_devices(NULL, &bad, &second), HF_CONFIG_ERROR,
          "cuda_driver = \"mine\"");
  bad = (hf_device_options){sizeof bad, NULL, 12, NULL, 0, NULL, 0};
  REFUSED(hf_node_create_with_devices(NULL, &bad, &second), HF_CONFIG_ERROR, "cuda_slice_bytes");
  bad = (hf_device_options){sizeof bad, NULL, 0, "maybe", 0, NULL, 0};
  REFUSED(hf_node_create_with_devices(NULL, &bad, &second), HF_CONFIG_ERROR, "cuda_ipc");
  bad = (hf_device_options){sizeof bad, NULL, 0, NULL, 0, "maybe", 0};
  REFUSED(hf_node_create_with_devices(NULL, &bad, &second), HF_CONFIG_ERROR, "cuda_codec");
  bad.size = 3;
  REFUSED(hf_device_options_from_env(&bad), HF_CONFIG_ERROR, "hf_device_options.size is 3");
  REFUSED(hf_node_create_with_devices(NULL, &bad, &second), HF_CONFIG_ERROR, "size is 3");

  /* No op of these has begun: the group is whole. */
  OK(hf_device_copy(node, 0, memory, here, sizeof here, stream));
  OK(hf_all_reduce(device, memory, memory, 4, HF_I64, HF_MAX, NULL));
  same(memory, here, 4, __LINE__);
  end();
}

/* Rank 1 alone calls on device memory. */
static void disagree(void) {
  int64_t here[4] = {1, 2, 3, 4};
  use_device();
  void* memory = device_copy_of(here, 4);
  void* values = rank == 1 ? memory : (void*)here;
  REFUSED(hf_all_reduce(rank == 1 ? device : group, values, values, 4, HF_I64, HF_SUM, NULL),
          HF_PROTOCOL_ERROR, "in device memory");
  leave();
}

static void no_driver(void) {
  int32_t where = 0;
  REFUSED(hf_group_on_device(group, 0, NULL, &device), HF_UNSUPPORTED, "no CUDA driver");
  REFUSED(hf_device_of(node, &where, &where), HF_UNSUPPORTED, "no CUDA driver");
  REFUSED(hf_stream_create(node, 0, &stream), HF_UNSUPPORTED, "no CUDA driver");
  int64_t one = 1;
  OK(hf_all_reduce(group, &one, &one, 1, HF_I64, HF_SUM, NULL));
  REQUIRE(one == size);
  end();
}

/* Rank 2 dies somewhere between its first copy up and its last copy down; the others print what
 * they have, and go on. */
static void lose_one(void) {
  enum { kCount = 500000 };
  use_device();
  int64_t* values = host_values(kCount, 0);
  for (int i = 0; i < kCount; ++i) values[i] = (int64_t)1 << rank;
  void* memory = device_copy_of(values, kCount);
  void* result = device_copy_of(values, kCount);
  for (int i = 0; i < 2; ++i) {
    OK(hf_all_reduce(device, memory, result, kCount, HF_I64, HF_SUM, NULL));
  }
  hf_work* work = NULL;
  OK(hf_all_reduce(device, memory, result, kCount, HF_I64, HF_SUM, &work));
  if (rank == 2) {
    const struct timespec pause = {0, atol(getenv("DIES_AFTER_US")) * 1000};
    nanosleep(&pause, NULL);
    kill(getpid(), SIGKILL);
  }
  OK(hf_work_wait_on(work, stream));
  int64_t* got = host_values(kCount, 0);
  OK(hf_device_copy(node, 0, got, result, kCount * sizeof *got, stream));
  OK(hf_work_wait(work, -1));
  hf_work_free(work);
  uint64_t told = 0;
  for (int i = 0; i < kCount; ++i) {
    /* Chunk by chunk with the lost rank's part, or without it. */
    REQUIRE(got[i] == 11 || got[i] == 15);
    told = told * 31 + (uint64_t)got[i];
  }
  OK(hf_all_reduce(device, memory, result, kCount, HF_I64, HF_SUM, NULL));
  for (int i = 0; i < kCount; ++i) values[i] = 11;
  same(result, values, kCount, __LINE__);
  int32_t live[kMostRanks];
  REQUIRE(hf_group_live_ranks(device, live, kMostRanks) == 3 && live[2] == 3);
  printf("%" PRIu64 "\n", told);
  end();
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } programs[] = {{"every_collective", every_collective},
                  {"go_on", go_on},
                  {"refuse", refuse},
                  {"disagree", disagree},
                  {"no_driver", no_driver},
                  {"lose_one", lose_one}};
  for (size_t i = 0; argc > 1 && i < sizeof programs / sizeof *programs; ++i) {
    if (strcmp(programs[i].name, argv[1]) != 0) continue;
    start();
    programs[i].run();
    return 0;
  }
  return 2;
}
