// What `holdfast bench --api mpi` runs, over Holdfast's libmpi and over others: a program of MPI.
//
//   measure SETS [BYTES,BYTES...]
//
// Rank 0 prints a line for each contestant of a case: its name, bytes, the least and the middle of
// the times of one, in microseconds, and what it is where it is not MPI. A time is that of a block
// of repetitions, by their number, of the slowest rank.
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kBlocks = 9,        // of which the least and the middle are told
  kFewBlocks = 3,     // where one takes long
  kMostReps = 20000,  // in a block
  kMostWorks = 2
};
static const double kBlockSeconds = 0.004, kLongSeconds = 0.2;
// Of each of a rank's two buffers: all ranks of a host have them.
static const size_t kMostBytes = (size_t)1 << 30;

int rank, size;
char *near, *far;
static size_t near_room, far_room;
static const char* sizes_wanted;

int wanted(size_t bytes) {
  if (sizes_wanted == NULL || bytes == 0) return 1;  // a barrier has no size
  const char* at = sizes_wanted;
  while (*at != '\0') {
    char* end;
    if (strtoull(at, &end, 10) == bytes) return 1;
    if (end == at) break;
    at = end + (*end == ',');
  }
  return 0;
}

static void grow(const char* name, char** buffer, size_t* room, size_t bytes) {
  if (bytes <= *room) return;
  if (bytes > kMostBytes) {
    fprintf(stderr, "%s with %d ranks needs a buffer of %zu bytes; accepted: up to %zu\n", name,
            size, bytes, kMostBytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  free(*buffer);
  *buffer = malloc(bytes);
  if (*buffer == NULL) {
    fprintf(stderr, "%s: there is no memory for a buffer of %zu bytes\n", name, bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  memset(*buffer, 0, bytes);
  *room = bytes;
}

void need(const char* name, size_t near_bytes, size_t far_bytes) {
  grow(name, &near, &near_room, near_bytes);
  grow(name, &far, &far_room, far_bytes);
}

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

// How many repetitions fill a block, and how long they take.
static int reps_of(Work* work, double* block) {
  int reps = 1;
  double once = time_of(work, 1);
  for (;;) {  // once more, warm, and as many as fill a block
    const double aim = kBlockSeconds / (once > 1e-9 ? once : 1e-9);
    const int next = aim < 1 ? 1 : aim > kMostReps ? kMostReps : (int)aim;
    if (next <= 2 * reps) break;
    reps = next < 16 * reps ? next : 16 * reps;
    once = time_of(work, reps);
  }
  *block = once * reps;
  return reps;
}

void measure(const char* name, size_t told_bytes, Work* const works[], int count, double per_rep) {
  int reps[kMostWorks];
  double times[kMostWorks][kBlocks], longest = 0;
  for (int w = 0; w < count; ++w) {
    double block;
    reps[w] = reps_of(works[w], &block);
    if (block > longest) longest = block;
  }
  const int blocks = longest > kLongSeconds ? kFewBlocks : kBlocks;
  for (int i = 0; i < blocks; ++i) {
    for (int w = 0; w < count; ++w) times[w][i] = time_of(works[w], reps[w]) / per_rep;
  }
  for (int w = 0; w < count && rank == 0; ++w) {
    qsort(times[w], (size_t)blocks, sizeof(double), by_time);
    printf("%s %zu %.4f %.4f %s\n", name, told_bytes, 1e6 * times[w][0], 1e6 * times[w][blocks / 2],
           works[w]->way != NULL ? works[w]->way : "");
    fflush(stdout);
  }
}

void measure_one(const char* name, size_t told_bytes, Work* work, double per_rep) {
  measure(name, told_bytes, &work, 1, per_rep);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* const what = argc > 1 ? argv[1] : "";
  if (argc > 2) sizes_wanted = argv[2];
  if (strstr(what, "messages")) measure_messages();
  if (strstr(what, "pack")) measure_packing();
  if (strstr(what, "halo")) measure_halos();
  if (strstr(what, "collectives")) measure_collectives();
  if (strstr(what, "calls")) measure_calls();
  free(near);
  free(far);
  MPI_Finalize();
  return 0;
}
