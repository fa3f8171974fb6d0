// What `holdfast bench --api mpi` runs, over Holdfast's libmpi and over others: a program of MPI
// alone. Rank 0 prints a line for each case: its name, bytes, and the least and the middle of the
// times of one, in microseconds. A time is that of a block of repetitions, by their number, of the
// slowest rank.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kBlocks = 9,       // of which the least and the middle are told
  kMostReps = 20000  // in a block
};
static const double kBlockSeconds = 0.004;

static int rank, size;
static char *near, *far;  // kBuffer bytes each
static const size_t kBuffer = 64u << 20;

typedef struct Work Work;
struct Work {
  void (*run)(Work*, int reps);
  size_t bytes;
  int kind;  // of this work's own
  MPI_Datatype type;
  MPI_Comm comm;
  int peers[2];
};

static int by_time(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static double time_of(Work* work, int reps) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  work->run(work, reps);
  double own = MPI_Wtime() - start, slowest = 0;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest / reps;
}

static void measure(const char* name, size_t told_bytes, Work* work, double per_rep) {
  int reps = 1;
  double once = time_of(work, 1);
  for (;;) {  // once more, warm, and as many as fill a block
    const double wanted = kBlockSeconds / (once > 1e-9 ? once : 1e-9);
    const int next = wanted < 1 ? 1 : wanted > kMostReps ? kMostReps : (int)wanted;
    if (next <= 2 * reps) break;
    reps = next < 16 * reps ? next : 16 * reps;
    once = time_of(work, reps);
  }
  double times[kBlocks];
  for (int i = 0; i < kBlocks; ++i) times[i] = time_of(work, reps) / per_rep;
  qsort(times, kBlocks, sizeof *times, by_time);
  if (rank != 0) return;
  printf("%s %zu %.4f %.4f\n", name, told_bytes, 1e6 * times[0], 1e6 * times[kBlocks / 2]);
  fflush(stdout);
}

// ---- messages ----------------------------------------------------------------------------------

static void ping_pong(Work* work, int reps) {
  const int bytes = (int)work->bytes;
  for (int i = 0; i < reps && rank < 2; ++i) {
    if (rank == 0) MPI_Send(near, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(far, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(near, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
  }
}

// All ranks at once, each with the one beside it.
static void exchange(Work* work, int reps) {
  const int bytes = (int)work->bytes, next = (rank + 1) % size, last = (rank + size - 1) % size;
  for (int i = 0; i < reps; ++i) {
    MPI_Sendrecv(near, bytes, MPI_BYTE, next, 2, far, bytes, MPI_BYTE, last, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  }
}

enum { kInFlight = 10000, kInOrder = 0, kReversed = 1 };
static MPI_Request requests[kInFlight];

// Rank 1 posts all of its receives before rank 0 sends.
static void in_flight(Work* work, int reps) {
  for (int i = 0; i < reps && rank < 2; ++i) {
    for (int k = 0; k < kInFlight && rank == 1; ++k) {
      const int tag = work->kind == kReversed ? kInFlight - 1 - k : k;
      MPI_Irecv(far + 8 * (size_t)tag, 8, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &requests[k]);
    }
    MPI_Sendrecv(near, 0, MPI_BYTE, 1 - rank, kInFlight, far, 0, MPI_BYTE, 1 - rank, kInFlight,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int k = 0; k < kInFlight && rank == 0; ++k) {
      MPI_Isend(near, 8, MPI_BYTE, 1, k, MPI_COMM_WORLD, &requests[k]);
    }
    MPI_Waitall(kInFlight, requests, MPI_STATUSES_IGNORE);
  }
}

static void measure_messages(void) {
  static const size_t kSizes[] = {8, 1024, 4096, 65536, 262144, 1048576, 4194304};
  if (size < 2) return;
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
    Work work = {.run = ping_pong, .bytes = kSizes[i]};
    measure("ping_pong", kSizes[i], &work, 2);
  }
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
    Work work = {.run = exchange, .bytes = kSizes[i]};
    measure("exchange", kSizes[i], &work, 1);
  }
  Work work = {.run = in_flight, .kind = kInOrder};
  measure("10000_in_order", 8, &work, 1);
  work.kind = kReversed;
  measure("10000_reversed", 8, &work, 1);
}

// ---- packing -----------------------------------------------------------------------------------

enum { kPack, kUnpack };

static void pack(Work* work, int reps) {
  for (int i = 0; i < reps && rank == 0; ++i) {
    int at = 0;
    if (work->kind == kPack) {
      MPI_Pack(near, 1, work->type, far, (int)work->bytes, &at, MPI_COMM_SELF);
    } else {
      MPI_Unpack(far, (int)work->bytes, &at, near, 1, work->type, MPI_COMM_SELF);
    }
  }
}

// The same bytes, contiguous.
static void copy(Work* work, int reps) {
  for (int i = 0; i < reps && rank == 0; ++i) {
    memcpy(far, near, work->bytes);
    // So that the compiler keeps every copy.
    __asm__ volatile("" : : "r"(far) : "memory");
  }
}

static MPI_Datatype vector_of(size_t payload, int block) {
  MPI_Datatype type;
  MPI_Type_vector((int)(payload / (size_t)block), block, 2 * block, MPI_BYTE, &type);
  return type;
}

// Records of 32 bytes of which 15 count: a double, an int, three characters.
static MPI_Datatype records_of(size_t payload) {
  const int counts[] = {1, 1, 3};
  const MPI_Aint places[] = {0, 8, 16};
  const MPI_Datatype parts[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR};
  MPI_Datatype record, spaced, type;
  MPI_Type_create_struct(3, (int*)counts, (MPI_Aint*)places, (MPI_Datatype*)parts, &record);
  MPI_Type_create_resized(record, 0, 32, &spaced);
  MPI_Type_contiguous((int)(payload / 15), spaced, &type);
  MPI_Type_free(&record);
  MPI_Type_free(&spaced);
  return type;
}

// Single floats, 1 to 3 apart.
static MPI_Datatype gather_of(size_t payload) {
  const int count = (int)(payload / sizeof(float));
  int* places = malloc((size_t)count * sizeof *places);
  unsigned seed = 1;
  for (int i = 0, at = 0; i < count; ++i) {
    places[i] = at;
    seed = seed * 1664525u + 1013904223u;
    at += 1 + (int)(seed >> 30) % 3;
  }
  MPI_Datatype type;
  MPI_Type_create_indexed_block(count, 1, places, MPI_FLOAT, &type);
  free(places);
  return type;
}

static void measure_pack(const char* name, MPI_Datatype type) {
  MPI_Type_commit(&type);
  int bytes;
  MPI_Type_size(type, &bytes);
  for (int kind = kPack; kind <= kUnpack; ++kind) {
    char full[64];
    snprintf(full, sizeof full, "%s_%s", kind == kPack ? "pack" : "unpack", name);
    Work work = {.run = pack, .bytes = (size_t)bytes, .kind = kind, .type = type};
    measure(full, (size_t)bytes, &work, 1);
  }
  MPI_Type_free(&type);
}

static void measure_packing(void) {
  static const size_t kSizes[] = {16384, 262144, 16777216};
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
    Work work = {.run = copy, .bytes = kSizes[i]};
    measure("memcpy", kSizes[i], &work, 1);
    for (int block = 4; block <= 64; block *= 2) {
      char name[32];
      snprintf(name, sizeof name, "vector_%d", block);
      measure_pack(name, vector_of(kSizes[i], block));
    }
    measure_pack("records", records_of(kSizes[i]));
    measure_pack("gather", gather_of(kSizes[i]));
  }
}

// ---- halos -------------------------------------------------------------------------------------

enum { kByTypes, kByHand };

typedef struct {
  Work work;
  int n, axis;
  MPI_Datatype faces[4];  // of the low side: sent, received; of the high side: sent, received
} Halo;

// Copies a face of (n + 2)^3 doubles, a loop as a program has it.
static void copy_face(const Halo* halo, int plane, double* packed, int out) {
  const int n = halo->n, m = n + 2;
  double* const cube = (double*)near;
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < n; ++k) {
      const int at[3] = {halo->axis == 0 ? plane : i + 1,
                         halo->axis == 1   ? plane
                         : halo->axis == 0 ? i + 1
                                           : k + 1,
                         halo->axis == 2 ? plane : k + 1};
      double* const there =
          &cube[((size_t)at[0] * (size_t)m + (size_t)at[1]) * (size_t)m + (size_t)at[2]];
      if (out) {
        *packed++ = *there;
      } else {
        *there = *packed++;
      }
    }
  }
}

// Both faces of one axis, with the neighbours on both sides.
static void swap_faces(Work* work, int reps) {
  Halo* halo = (Halo*)work;
  const int n = halo->n, count = n * n;
  for (int i = 0; i < reps; ++i) {
    MPI_Request under_way[4];
    for (int side = 0; side < 2; ++side) {
      const int from = work->peers[side], to = work->peers[1 - side];
      double* const packed = (double*)far + 2 * side * count;
      if (work->kind == kByTypes) {
        MPI_Irecv(near, 1, halo->faces[2 * side + 1], from, side, work->comm, &under_way[side]);
        MPI_Isend(near, 1, halo->faces[2 * (1 - side)], to, side, work->comm, &under_way[2 + side]);
      } else {
        MPI_Irecv(packed, count, MPI_DOUBLE, from, side, work->comm, &under_way[side]);
        copy_face(halo, side == 0 ? n : 1, packed + count, 1);
        MPI_Isend(packed + count, count, MPI_DOUBLE, to, side, work->comm, &under_way[2 + side]);
      }
    }
    MPI_Waitall(4, under_way, MPI_STATUSES_IGNORE);
    for (int side = 0; side < 2 && work->kind == kByHand; ++side) {
      copy_face(halo, side == 0 ? 0 : n + 1, (double*)far + 2 * side * count, 0);
    }
  }
}

static void measure_halo(int n, int axis, MPI_Comm grid) {
  Halo halo = {.work = {.run = swap_faces, .bytes = 0, .comm = grid}, .n = n, .axis = axis};
  MPI_Cart_shift(grid, axis, 1, &halo.work.peers[0], &halo.work.peers[1]);
  static const int kPlanes[4] = {1, 0, 2, 3};  // 2 and 3: of the high side
  for (int i = 0; i < 4; ++i) {
    int whole[3], part[3], start[3];
    for (int k = 0; k < 3; ++k) {
      whole[k] = n + 2;
      part[k] = k == axis ? 1 : n;
      start[k] = k != axis ? 1 : kPlanes[i] < 2 ? kPlanes[i] : n + kPlanes[i] - 2;
    }
    MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, MPI_DOUBLE, &halo.faces[i]);
    MPI_Type_commit(&halo.faces[i]);
  }
  for (int kind = kByTypes; kind <= kByHand; ++kind) {
    char name[64];
    snprintf(name, sizeof name, "halo_%d_axis%d_%s", n, axis, kind == kByTypes ? "types" : "hand");
    halo.work.kind = kind;
    measure(name, 8u * (size_t)n * (size_t)n, &halo.work, 1);
  }
  for (int i = 0; i < 4; ++i) MPI_Type_free(&halo.faces[i]);
}

static void measure_halos(void) {
  int dims[3] = {0, 0, 0};
  const int periods[3] = {1, 1, 1};
  MPI_Comm grid;
  MPI_Dims_create(size, 3, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, (int*)periods, 0, &grid);
  for (int n = 64; n <= 128; n *= 2) {
    for (int axis = 0; axis < 3; ++axis) measure_halo(n, axis, grid);
  }
  MPI_Comm_free(&grid);
}

// ---- collectives, communicators ----------------------------------------------------------------

enum { kAllReduce, kBroadcast, kAllToAll, kBarrier, kDup, kSplit };

static void collective(Work* work, int reps) {
  const int floats = (int)(work->bytes / sizeof(float));
  for (int i = 0; i < reps; ++i) {
    MPI_Comm made;
    switch (work->kind) {
      case kAllReduce: MPI_Allreduce(near, far, floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
      case kBroadcast: MPI_Bcast(near, floats, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
      case kAllToAll:
        MPI_Alltoall(near, floats, MPI_FLOAT, far, floats, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case kBarrier: MPI_Barrier(MPI_COMM_WORLD); break;
      case kDup:
        MPI_Comm_dup(MPI_COMM_WORLD, &made);
        MPI_Comm_free(&made);
        break;
      default: MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &made); MPI_Comm_free(&made);
    }
  }
}

static void measure_collectives(void) {
  static const char* const kNames[] = {"allreduce", "bcast", "alltoall"};
  static const size_t kSizes[] = {8, 4096, 262144, 4194304};
  for (int kind = kAllReduce; kind <= kAllToAll; ++kind) {
    for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
      Work work = {.run = collective, .bytes = kSizes[i], .kind = kind};
      measure(kNames[kind], kSizes[i], &work, 1);
    }
  }
  static const char* const kOthers[] = {"barrier", "dup_free", "split_free"};
  for (int kind = kBarrier; kind <= kSplit; ++kind) {
    Work work = {.run = collective, .kind = kind};
    measure(kOthers[kind - kBarrier], 0, &work, 1);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  near = malloc(kBuffer);
  far = malloc(kBuffer);
  if (near == NULL || far == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  memset(near, 0, kBuffer);
  memset(far, 0, kBuffer);
  for (int i = 0; i < kInFlight; ++i) requests[i] = MPI_REQUEST_NULL;
  const char* const what = argc > 1 ? argv[1] : "";
  if (strstr(what, "messages")) measure_messages();
  if (strstr(what, "pack")) measure_packing();
  if (strstr(what, "halo")) measure_halos();
  if (strstr(what, "collectives")) measure_collectives();
  free(near);
  free(far);
  MPI_Finalize();
  return 0;
}
