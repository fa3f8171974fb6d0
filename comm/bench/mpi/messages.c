// Messages: one there and back, all ranks at once, and many in flight.
#include "measure.h"

static void there_and_back(char* sent, char* received, int bytes, int reps) {
  for (int i = 0; i < reps && rank < 2; ++i) {
    if (rank == 0) MPI_Send(sent, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(received, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(sent, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
  }
}

// Nobody writes what is sent: after the first time it lies in the receiver's caches, too.
static void ping_pong(Work* work, int reps) { there_and_back(near, far, (int)work->bytes, reps); }

// What has come is sent back: each message was written by the core that sends it.
static void bounce(Work* work, int reps) { there_and_back(near, near, (int)work->bytes, reps); }

// Ranks 2k and 2k + 1, all pairs at once: a ping-pong in which no rank is idle.
static void pairs(Work* work, int reps) {
  const int bytes = (int)work->bytes, other = rank ^ 1;
  for (int i = 0; i < reps && other < size; ++i) {
    if (rank < other) MPI_Send(near, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
    MPI_Recv(far, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank > other) MPI_Send(near, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
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

enum { kInFlight = 10000, kInFlightBytes = 8, kInOrder = 0, kReversed = 1 };
static MPI_Request requests[kInFlight];

// Rank 1 posts all of its receives before rank 0 sends.
static void in_flight(Work* work, int reps) {
  for (int i = 0; i < reps && rank < 2; ++i) {
    for (int k = 0; k < kInFlight && rank == 1; ++k) {
      const int tag = work->kind == kReversed ? kInFlight - 1 - k : k;
      MPI_Irecv(far + kInFlightBytes * (size_t)tag, kInFlightBytes, MPI_BYTE, 0, tag,
                MPI_COMM_WORLD, &requests[k]);
    }
    MPI_Sendrecv(near, 0, MPI_BYTE, 1 - rank, kInFlight, far, 0, MPI_BYTE, 1 - rank, kInFlight,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int k = 0; k < kInFlight && rank == 0; ++k) {
      MPI_Isend(near, kInFlightBytes, MPI_BYTE, 1, k, MPI_COMM_WORLD, &requests[k]);
    }
    MPI_Waitall(kInFlight, requests, MPI_STATUSES_IGNORE);
  }
}

static void measure_sizes(const char* name, void (*run)(Work*, int), double per_rep) {
  static const size_t kSizes[] = {8, 1024, 4096, 65536, 262144, 1048576, 4194304};
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
    if (!wanted(kSizes[i])) continue;
    need(name, kSizes[i], kSizes[i]);
    Work work = {.run = run, .bytes = kSizes[i]};
    measure_one(name, kSizes[i], &work, per_rep);
  }
}

void measure_messages(void) {
  if (size < 2) return;
  measure_sizes("ping_pong", ping_pong, 2);
  measure_sizes("bounce", bounce, 2);
  if (size > 2) measure_sizes("pairs", pairs, 2);
  measure_sizes("exchange", exchange, 1);
  if (!wanted(kInFlightBytes)) return;
  for (int i = 0; i < kInFlight; ++i) requests[i] = MPI_REQUEST_NULL;
  need("10000_in_order", kInFlightBytes, (size_t)kInFlight * kInFlightBytes);
  Work work = {.run = in_flight, .kind = kInOrder};
  measure_one("10000_in_order", kInFlightBytes, &work, 1);
  work.kind = kReversed;
  measure_one("10000_reversed", kInFlightBytes, &work, 1);
}
