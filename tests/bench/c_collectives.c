/* Collectives through the C interface, beside the same loop on MPI where built with it.
 *
 *   cc -O2 c_collectives.c $(holdfast info --cflags --libs) -o c_collectives
 *   holdfast run -n 2 ./c_collectives all_reduce,broadcast 4096,65536
 *
 *   mpicc -O2 -DWITH_MPI c_collectives.c $(holdfast info --cflags --libs) -o c_collectives
 *   HOLDFAST_STORE=file:///tmp/empty mpiexec -n 2 ./c_collectives all_reduce,broadcast 4096,65536
 *
 * Contestants take turns; a block of calls begins with untimed ones. Printed: the median over the
 * turns of the slowest rank's mean, in microseconds, and MPI's by Holdfast's.
 */
#define _POSIX_C_SOURCE 200809L
#include <holdfast/holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

enum { TURNS = 9, WARM_UP = 5 };

static hf_group* group;
static int ranks;
static float* a;
static float* b;

static void check(hf_status status, const char* what) {
  if (status == HF_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(status), hf_last_error());
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef void (*call)(size_t count);

/* Of each rank, at least one element. */
static size_t part(size_t n) { return n < (size_t)ranks ? 1 : n / (size_t)ranks; }

static void hf_ar(size_t n) { check(hf_all_reduce(group, a, a, n, HF_F32, HF_MAX, NULL), "ar"); }
static void hf_bc(size_t n) { check(hf_broadcast(group, a, n, HF_F32, 0, NULL), "bc"); }
static void hf_ag(size_t n) { check(hf_all_gather(group, a, b, part(n), HF_F32, NULL), "ag"); }
static void hf_rs(size_t n) {
  check(hf_reduce_scatter(group, a, b, part(n), HF_F32, HF_MAX, NULL), "rs");
}
static void hf_aa(size_t n) { check(hf_all_to_all(group, a, b, part(n), HF_F32, NULL), "aa"); }

#ifdef WITH_MPI
static int each(size_t n) { return (int)part(n); }
static void mpi_ar(size_t n) {
  MPI_Allreduce(MPI_IN_PLACE, a, (int)n, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
}
static void mpi_bc(size_t n) { MPI_Bcast(a, (int)n, MPI_FLOAT, 0, MPI_COMM_WORLD); }
static void mpi_ag(size_t n) {
  MPI_Allgather(a, each(n), MPI_FLOAT, b, each(n), MPI_FLOAT, MPI_COMM_WORLD);
}
static void mpi_rs(size_t n) {
  MPI_Reduce_scatter_block(a, b, each(n), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
}
static void mpi_aa(size_t n) {
  MPI_Alltoall(a, each(n), MPI_FLOAT, b, each(n), MPI_FLOAT, MPI_COMM_WORLD);
}
#define BOTH(name) \
  { hf_##name, mpi_##name }
#else
#define BOTH(name) \
  { hf_##name, NULL }
#endif

static const struct {
  const char* name;
  call calls[2];
} collectives[] = {{"all_reduce", BOTH(ar)},
                   {"broadcast", BOTH(bc)},
                   {"all_gather", BOTH(ag)},
                   {"reduce_scatter", BOTH(rs)},
                   {"all_to_all", BOTH(aa)}};

/* The largest of all ranks' values. */
static double slowest(double seconds) {
  check(hf_all_reduce(group, &seconds, &seconds, 1, HF_F64, HF_MAX, NULL), "slowest");
  return seconds;
}

static double mean_of(call run, size_t count, int calls) {
  check(hf_barrier(group, NULL), "barrier");
  for (int i = 0; i < WARM_UP && i < calls; ++i) run(count);
  const double began = now();
  for (int i = 0; i < calls; ++i) run(count);
  return slowest((now() - began) / calls);
}

static int ascending(const void* x, const void* y) {
  const double left = *(const double*)x;
  const double right = *(const double*)y;
  return (left > right) - (left < right);
}

static void measure(const char* name, const call calls[2], size_t bytes) {
  const size_t count = bytes / sizeof(float);
  double times[2][TURNS];
  int many[2] = {1, 1};
  for (int who = 0; who < 2; ++who) {
    if (calls[who] == NULL) continue;
    calls[who](count);
    while (many[who] < 10000 && mean_of(calls[who], count, many[who]) * many[who] < 0.02) {
      many[who] *= 4;
    }
  }
  for (int turn = 0; turn < TURNS; ++turn) {
    for (int who = 0; who < 2; ++who) {
      if (calls[who] != NULL) times[who][turn] = mean_of(calls[who], count, many[who]);
    }
  }
  if (hf_group_rank(group) != 0) return;
  for (int who = 0; who < 2; ++who) qsort(times[who], TURNS, sizeof(double), ascending);
  printf("%d %-14s %10zu  holdfast %9.2f us", ranks, name, bytes, 1e6 * times[0][TURNS / 2]);
  if (calls[1] != NULL) {
    printf("  mpi %9.2f us  ratio %.2f", 1e6 * times[1][TURNS / 2],
           times[1][TURNS / 2] / times[0][TURNS / 2]);
  }
  printf("\n");
  fflush(stdout);
}

/* Whether a list with commas has the word. */
static int has(const char* list, const char* word) {
  const size_t length = strlen(word);
  for (const char* at = list; (at = strstr(at, word)) != NULL; at += length) {
    if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s COLLECTIVES SIZES (lists with commas; sizes in bytes)\n", argv[0]);
    return 2;
  }
  hf_options options = {.size = sizeof options};
  check(hf_options_from_env(&options), "options");
  hf_node* node = NULL;
  check(hf_node_create(&options, &node), "node");
#ifdef WITH_MPI
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char text[16];
  snprintf(text, sizeof text, "%d", rank);
  setenv("RANK", text, 1);
  snprintf(text, sizeof text, "%d", ranks);
  setenv("WORLD_SIZE", text, 1);
#endif
  check(hf_group_join_env(node, "bench", &group), "join");
  ranks = hf_group_size(group);
  size_t most = 0;
  for (char* at = argv[2]; *at != '\0'; at += *at == ',') {
    const size_t bytes = strtoull(at, &at, 10);
    if (bytes > most) most = bytes;
    if (*at != ',' && *at != '\0') return 2;
  }
  const size_t room = most + sizeof(float) * (size_t)ranks;
  a = malloc(room);
  b = malloc(room);
  if (a == NULL || b == NULL) return 1;
  memset(a, 0, room);
  memset(b, 0, room);
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; ++i) {
    if (!has(argv[1], collectives[i].name)) continue;
    for (char* at = argv[2]; *at != '\0'; at += *at == ',') {
      measure(collectives[i].name, collectives[i].calls, strtoull(at, &at, 10));
    }
  }
  check(hf_group_close(group, 5000000000LL), "close");
  hf_group_free(group);
  hf_node_free(node);
  free(a);
  free(b);
#ifdef WITH_MPI
  MPI_Finalize();
#endif
  return 0;
}
