// What MPI's manner costs: the same collectives by MPI and by holdfast.h, in one program.
#include "measure.h"

#ifdef WITH_HOLDFAST
#include <holdfast/holdfast.h>
#include <stdio.h>

static const int64_t kCloseNs = 5000000000;  // the others are there, or have failed

static hf_group* group;

static void check(hf_status status, const char* what) {
  if (status == HF_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(status), hf_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

enum { kAllReduce, kBroadcast, kAllGather, kAllToAll, kBarrier };

static void by_mpi(Work* work, int reps) {
  const int n = (int)(work->bytes / sizeof(float));
  const MPI_Comm all = MPI_COMM_WORLD;
  for (int i = 0; i < reps; ++i) {
    switch (work->kind) {
      case kAllReduce: MPI_Allreduce(near, far, n, MPI_FLOAT, MPI_SUM, all); break;
      case kBroadcast: MPI_Bcast(near, n, MPI_FLOAT, 0, all); break;
      case kAllGather: MPI_Allgather(near, n, MPI_FLOAT, far, n, MPI_FLOAT, all); break;
      case kAllToAll: MPI_Alltoall(near, n, MPI_FLOAT, far, n, MPI_FLOAT, all); break;
      default: MPI_Barrier(all);
    }
  }
}

static hf_status call_of(int kind, size_t n) {
  switch (kind) {
    case kAllReduce: return hf_all_reduce(group, near, far, n, HF_F32, HF_SUM, NULL);
    case kBroadcast: return hf_broadcast(group, near, n, HF_F32, 0, NULL);
    case kAllGather: return hf_all_gather(group, near, far, n, HF_F32, NULL);
    case kAllToAll: return hf_all_to_all(group, near, far, n, HF_F32, NULL);
    default: return hf_barrier(group, NULL);
  }
}

static void by_holdfast(Work* work, int reps) {
  const size_t n = work->bytes / sizeof(float);
  for (int i = 0; i < reps; ++i) check(call_of(work->kind, n), "a collective by holdfast.h");
}

static void measure_call(const char* name, int kind, size_t bytes) {
  need(name, bytes * (size_t)size, bytes * (size_t)size);
  Work mpi = {.run = by_mpi, .bytes = bytes, .kind = kind};
  Work own = {.run = by_holdfast, .way = "holdfast.h", .bytes = bytes, .kind = kind};
  Work* const works[] = {&mpi, &own};
  measure(name, bytes, works, 2, 1);
}

void measure_calls(void) {
  static const char* const kNames[] = {"call_allreduce", "call_bcast", "call_allgather",
                                       "call_alltoall"};
  static const size_t kSizes[] = {8, 1024, 16384, 262144};
  hf_options options = {.size = sizeof options};
  hf_node* node = NULL;
  check(hf_options_from_env(&options), "options");
  check(hf_node_create(&options, &node), "node");
  check(hf_group_join_env(node, "bench", &group), "join");
  for (int kind = kAllReduce; kind <= kAllToAll; ++kind) {
    for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
      if (wanted(kSizes[i])) measure_call(kNames[kind], kind, kSizes[i]);
    }
  }
  if (wanted(0)) measure_call("call_barrier", kBarrier, 0);
  check(hf_group_close(group, kCloseNs), "close");
  hf_group_free(group);
  hf_node_free(node);
}
#else
void measure_calls(void) {}
#endif
