// Collectives, and communicators that are made and freed.
#include "measure.h"

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

void measure_collectives(void) {
  static const char* const kNames[] = {"allreduce", "bcast", "alltoall"};
  static const size_t kSizes[] = {8, 4096, 262144, 4194304};
  for (int kind = kAllReduce; kind <= kAllToAll; ++kind) {
    for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
      if (!wanted(kSizes[i])) continue;
      // Of alltoall the bytes are those for one rank.
      const size_t room = kSizes[i] * (kind == kAllToAll ? (size_t)size : 1);
      need(kNames[kind], room, room);
      Work work = {.run = collective, .bytes = kSizes[i], .kind = kind};
      measure_one(kNames[kind], kSizes[i], &work, 1);
    }
  }
  if (!wanted(0)) return;
  static const char* const kOthers[] = {"barrier", "dup_and_free", "split_and_free"};
  for (int kind = kBarrier; kind <= kSplit; ++kind) {
    Work work = {.run = collective, .kind = kind};
    measure_one(kOthers[kind - kBarrier], 0, &work, 1);
  }
}
