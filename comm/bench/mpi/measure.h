// What the parts of the program share: how a case is measured, and memory that grows by need.
#ifndef HOLDFAST_BENCH_MEASURE_H
#define HOLDFAST_BENCH_MEASURE_H

#include <mpi.h>
#include <stddef.h>

// What is timed: one contestant of a case.
typedef struct Work Work;
struct Work {
  void (*run)(Work*, int reps);
  const char* way;  // beside MPI's own: "hand", "holdfast.h"; NULL: by MPI
  size_t bytes;
  int kind;  // of this work's own
  MPI_Datatype type;
  MPI_Comm comm;
};

extern int rank, size;
extern char *near, *far;  // at least as long as need() was told

// Whether cases of so many bytes are asked for; 0: of no size.
int wanted(size_t bytes);

// Makes near and far so long, or ends the program and names the case.
void need(const char* name, size_t near_bytes, size_t far_bytes);

// The contestants of one case take turns; rank 0 prints a line for each. One repetition is per_rep
// times what is told.
void measure(const char* name, size_t told_bytes, Work* const works[], int count, double per_rep);
void measure_one(const char* name, size_t told_bytes, Work* work, double per_rep);

void measure_messages(void);
void measure_packing(void);
void measure_halos(void);
void measure_collectives(void);
// Collectives by MPI and by holdfast.h; nothing where it is compiled for another MPI.
void measure_calls(void);

#endif
