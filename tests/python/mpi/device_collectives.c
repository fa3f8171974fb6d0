// Collectives of device memory: every one of them on memory of the host first, and then the same on
// memory of a device, on both sides or on one, gives the same bytes, gaps included. Prints
// "fine RANK of SIZE". The argument `lost`: the last rank dies before a collective; `mixed`: one
// rank alone has host memory.
#include <signal.h>
#include <unistd.h>

#include "device_memory.h"

enum { kMostRanks = 4, kForms = 3 };

static MPI_Comm comm;
static MPI_Comm ring;  // with a topology
static MPI_Datatype type;
static int count;     // of a block
static long extent;   // of an element
static size_t block;  // bytes that a block reaches over
static int form;      // at once, with a request, persistent

static int counts[kMostRanks], places[kMostRanks], bytes_at[kMostRanks];
static MPI_Datatype types[kMostRanks];

static void finish(MPI_Request* request) {
  if (form == 2) MPI_Start(request);
  MPI_Wait(request, MPI_STATUS_IGNORE);
  if (form == 2) MPI_Request_free(request);
}

// One call in its three forms.
#define IN_FORM(now, later, again)          \
  do {                                      \
    MPI_Request request = MPI_REQUEST_NULL; \
    if (form == 0) {                        \
      now;                                  \
      return;                               \
    }                                       \
    if (form == 1) {                        \
      later;                                \
    } else {                                \
      again;                                \
    }                                       \
    finish(&request);                       \
  } while (0)
#define THREE(name, init, ...)                                         \
  IN_FORM(MPI_##name(__VA_ARGS__), MPI_I##init(__VA_ARGS__, &request), \
          MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request))

static void bcast(const void* in, void* out) {
  (void)in;
  THREE(Bcast, bcast, out, count, type, size - 1, comm);
}
static void reduce(const void* in, void* out) {
  THREE(Reduce, reduce, in, out, count, MPI_INT, MPI_SUM, 0, comm);
}
static void allreduce(const void* in, void* out) {
  THREE(Allreduce, allreduce, in, out, count, MPI_INT, MPI_BXOR, comm);
}
static void allreduce_in_place(const void* in, void* out) {
  (void)in;
  THREE(Allreduce, allreduce, MPI_IN_PLACE, out, count, MPI_FLOAT, MPI_MIN, comm);
}
static void scan(const void* in, void* out) {
  THREE(Scan, scan, in, out, count, MPI_INT, MPI_SUM, comm);
}
static void exscan(const void* in, void* out) {
  THREE(Exscan, exscan, in, out, count, MPI_INT, MPI_SUM, comm);
}
static void reduce_scatter_block(const void* in, void* out) {
  THREE(Reduce_scatter_block, reduce_scatter_block, in, out, count, MPI_INT, MPI_MAX, comm);
}
static void reduce_scatter(const void* in, void* out) {
  THREE(Reduce_scatter, reduce_scatter, in, out, counts, MPI_INT, MPI_SUM, comm);
}
static void gather(const void* in, void* out) {
  THREE(Gather, gather, in, count, type, out, count, type, 0, comm);
}
static void gatherv(const void* in, void* out) {
  THREE(Gatherv, gatherv, in, count, type, out, counts, places, type, size - 1, comm);
}
static void scatter(const void* in, void* out) {
  THREE(Scatter, scatter, in, count, type, out, count, type, 0, comm);
}
static void scatterv(const void* in, void* out) {
  THREE(Scatterv, scatterv, in, counts, places, type, out, count, type, 0, comm);
}
static void allgather(const void* in, void* out) {
  THREE(Allgather, allgather, in, count, type, out, count, type, comm);
}
static void allgather_in_place(const void* in, void* out) {
  (void)in;
  THREE(Allgather, allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, count, type, comm);
}
static void allgatherv(const void* in, void* out) {
  THREE(Allgatherv, allgatherv, in, count, type, out, counts, places, type, comm);
}
static void alltoall(const void* in, void* out) {
  THREE(Alltoall, alltoall, in, count, type, out, count, type, comm);
}
static void alltoall_in_place(const void* in, void* out) {
  (void)in;
  THREE(Alltoall, alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, count, type, comm);
}
static void alltoallv(const void* in, void* out) {
  THREE(Alltoallv, alltoallv, in, counts, places, type, out, counts, places, type, comm);
}
static void alltoallw(const void* in, void* out) {
  THREE(Alltoallw, alltoallw, in, counts, bytes_at, types, out, counts, bytes_at, types, comm);
}
static void neighbor_alltoall(const void* in, void* out) {
  THREE(Neighbor_alltoall, neighbor_alltoall, in, count, type, out, count, type, ring);
}
static void local(const void* in, void* out) { MPI_Reduce_local(in, out, count, MPI_INT, MPI_SUM); }

static void weighted(void* in, void* inout, int* n, MPI_Datatype* of) {
  (void)of;
  for (int i = 0; i < *n; ++i) ((int*)inout)[i] = 3 * ((int*)in)[i] + ((int*)inout)[i];
}
static MPI_Op own_op;
static void allreduce_of_function(const void* in, void* out) {
  THREE(Allreduce, allreduce, in, out, count, MPI_INT, own_op, comm);
}

static const struct {
  const char* name;
  void (*run)(const void* in, void* out);
} kAll[] = {
    {"bcast", bcast},
    {"reduce", reduce},
    {"allreduce", allreduce},
    {"allreduce in place", allreduce_in_place},
    {"scan", scan},
    {"exscan", exscan},
    {"reduce_scatter_block", reduce_scatter_block},
    {"reduce_scatter", reduce_scatter},
    {"gather", gather},
    {"gatherv", gatherv},
    {"scatter", scatter},
    {"scatterv", scatterv},
    {"allgather", allgather},
    {"allgather in place", allgather_in_place},
    {"allgatherv", allgatherv},
    {"alltoall", alltoall},
    {"alltoall in place", alltoall_in_place},
    {"alltoallv", alltoallv},
    {"alltoallw", alltoallw},
    {"neighbor_alltoall", neighbor_alltoall},
    {"reduce_local", local},
    {"allreduce of a function", allreduce_of_function},
};

// `where`: 1, the input is on a device, 2, the output, 3, both.
static Buffer run(int which, int where, unsigned seed) {
  const size_t bytes = block * kMostRanks;
  const Buffer in = buffer_of(where & 1, bytes);
  const Buffer out = buffer_of(where >> 1, bytes);
  fill(&in, seed + (unsigned)rank);
  fill(&out, seed + 40 + (unsigned)rank);
  kAll[which].run(first(&in), first(&out));
  unsigned char* as_it_was = pattern(bytes, seed + (unsigned)rank);
  is_exactly(&in, as_it_was, __LINE__);
  free(as_it_was);
  drop(&in);
  return out;
}

static void set_type(MPI_Datatype of, int elements) {
  MPI_Aint lb, width;
  type = of;
  count = elements;
  MPI_Type_get_extent(of, &lb, &width);
  extent = (long)width;
  block = (size_t)(extent > 4 ? extent : 4) * (size_t)elements;
  for (int r = 0; r < kMostRanks; ++r) {
    counts[r] = elements;
    places[r] = r * elements;
    bytes_at[r] = (int)(r * elements * extent);
    types[r] = of;
  }
}

// Every call on the host, and then on devices; on some ranks alone if `uneven`.
static void all_of(int least, int most, int uneven) {
  for (int which = least; which < most; ++which) {
    for (form = 0; form < kForms; ++form) {
      const unsigned seed = (unsigned)(which * 10 + form);
      const Buffer by_host = run(which, 0, seed);
      unsigned char* want = copy_of(&by_host);
      const int where = uneven ? (rank + form) % 4 : form == 0 ? 3 : form == 1 ? which % 3 + 1 : 3;
      const Buffer by_device = run(which, where, seed);
      unsigned char* got = copy_of(&by_device);
      if (memcmp(got, want, by_host.bytes + 2 * kGuard) != 0) {
        printf("rank %d: %s, form %d, devices %d\n", rank, kAll[which].name, form, where);
      }
      is_exactly(&by_device, want, __LINE__);
      free(want);
      free(got);
      drop(&by_host);
      drop(&by_device);
    }
  }
}

static void between_groups(void) {
  if (size < 2) return;
  MPI_Comm half, inter;
  MPI_Comm_split(comm, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, comm, 1 - rank % 2, 3, &inter);
  const Buffer in = buffer_of(1, 400);
  const Buffer out = buffer_of(1, 400 * kMostRanks);
  fill(&in, (unsigned)rank);
  fill(&out, 90);
  MPI_Allgather(first(&in), 100, MPI_INT, first(&out), 100, MPI_INT, inter);
  unsigned char* want = pattern(out.bytes, 90);
  int theirs = 0;
  MPI_Comm_remote_size(inter, &theirs);
  for (int i = 0; i < theirs; ++i) {
    unsigned char* block_of = pattern(400, (unsigned)(2 * i + 1 - rank % 2));
    memcpy(want + kGuard + 400 * i, block_of + kGuard, 400);
    free(block_of);
  }
  is_exactly(&out, want, __LINE__);
  free(want);
  drop(&in);
  drop(&out);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

// What bypasses the host needs all ranks' buffers on devices, and says so where they are not.
static void large_ones_are_not_mixed(void) {
  enum { kCount = 300000 };
  if (size < 2) return;
  const Buffer in = buffer_of(rank > 0, kCount * sizeof(int));
  const Buffer out = buffer_of(rank > 0, (size_t)size * kCount * sizeof(int));
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const int code = MPI_Allgather(first(&in), kCount, MPI_INT, first(&out), kCount, MPI_INT, comm);
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
  check(strstr(text, "in device memory") != NULL, text, __LINE__);
  printf("told of the mixture\n");
  fflush(stdout);
  drop(&in);
  drop(&out);
}

static void a_rank_is_lost(void) {
  enum { kCount = 1 << 20 };
  const Buffer in = buffer_of(1, kCount * sizeof(int));
  const Buffer out = buffer_of(1, kCount * sizeof(int));
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  if (rank == size - 1) kill(getpid(), SIGKILL);
  CHECK(MPI_Allreduce(first(&in), first(&out), kCount, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS);
  printf("told of the loss\n");
  fflush(stdout);
  _exit(0);
}

int main(int argc, char** argv) {
  enum { kKinds = sizeof kAll / sizeof *kAll };
  begin(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (argc > 1 && strcmp(argv[1], "lost") == 0) a_rank_is_lost();
  if (argc > 1 && strcmp(argv[1], "mixed") == 0) {
    large_ones_are_not_mixed();
    MPI_Finalize();
    return 0;
  }
  const int periodic = 1;
  MPI_Cart_create(comm, 1, &size, &periodic, 0, &ring);
  MPI_Op_create(weighted, 0, &own_op);
  MPI_Datatype pairs;
  MPI_Type_vector(3, 2, 4, MPI_INT, &pairs);
  MPI_Type_commit(&pairs);
  set_type(MPI_INT, 500);
  all_of(0, kKinds, 0);
  all_of(0, kKinds, 1);
  set_type(pairs, 50);
  all_of(0, kKinds, 0);
  set_type(MPI_INT, 270000);  // several pieces, and as devices reach each other
  all_of(0, 3, 0);
  all_of(12, 13, 0);
  all_of(15, 16, 0);
  between_groups();
  MPI_Type_free(&pairs);
  MPI_Op_free(&own_op);
  MPI_Comm_free(&ring);
  MPI_Comm_free(&comm);
  printf("fine %d of %d\n", rank, size);
  MPI_Finalize();
  return 0;
}
