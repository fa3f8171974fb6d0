// MPI_THREAD_MULTIPLE: the threads of each rank send, receive, wait, probe, call collectives and
// make communicators at the same time, and every message is what was sent. Every rank prints
// "fine", or what is not.
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define MOST 20000  // ints of a message: large ones are announced, and fetched

static int rank, size, rounds = 60;
static atomic_int wrong;
static MPI_Comm own[THREADS], shared, pool;
static atomic_int pool_sum;

static void expect(int holds, const char* what, int thread, int line) {
  if (holds || atomic_fetch_add(&wrong, 1) > 20) return;
  printf("rank %d, thread %d, line %d: not so: %s\n", rank, thread, line, what);
}
#define EXPECT(condition) expect((condition), #condition, thread, __LINE__)

// What a message holds follows from who sent it, and when.
static int value(int from, int thread, int round, int i) {
  return from * 1000003 + thread * 10007 + round * 101 + i;
}
static int length(int thread, int round) {
  const unsigned mixed = (unsigned)(round * 2654435761u + (unsigned)thread * 40503u) >> 7;
  return round % 8 == 0 ? MOST - (int)(mixed % 100) : 1 + (int)(mixed % 600);
}
static void fill(int* data, int thread, int round) {
  for (int i = 0; i < length(thread, round); ++i) data[i] = value(rank, thread, round, i);
}
static int is_whole(const int* data, int from, int thread, int round) {
  for (int i = 0; i < length(thread, round); ++i) {
    if (data[i] != value(from, thread, round, i)) return 0;
  }
  return 1;
}

// With the thread of the same number in the next rank, on one communicator.
static void exchange(int thread, MPI_Comm comm, int any, int* out, int* in) {
  const int next = (rank + 1) % size, last = (rank + size - 1) % size;
  for (int round = 0; round < rounds; ++round) {
    MPI_Request request;
    MPI_Status status;
    int count = -1;
    fill(out, thread, round);
    MPI_Isend(out, length(thread, round), MPI_INT, next, thread, comm, &request);
    MPI_Recv(in, MOST, MPI_INT, any ? MPI_ANY_SOURCE : last, thread, comm, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT(status.MPI_SOURCE == last && status.MPI_TAG == thread);
    EXPECT(count == length(thread, round) && is_whole(in, last, thread, round));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

#define WINDOW 16
static void window(int thread, MPI_Comm comm, int* out, int* in) {
  const int next = (rank + 1) % size, last = (rank + size - 1) % size;
  for (int round = 0; round < rounds / 4; ++round) {
    MPI_Request requests[2 * WINDOW];
    int seen = 0, index = 0;
    for (int i = 0; i < WINDOW; ++i) {
      out[i] = value(rank, thread, round, i);
      in[i] = -1;
      MPI_Irecv(&in[i], 1, MPI_INT, last, THREADS * (i + 1) + thread, comm, &requests[i]);
    }
    for (int i = WINDOW - 1; i >= 0; --i) {
      MPI_Isend(&out[i], 1, MPI_INT, next, THREADS * (i + 1) + thread, comm, &requests[WINDOW + i]);
    }
    for (;;) {
      MPI_Status status;
      MPI_Waitany(2 * WINDOW, requests, &index, &status);
      if (index == MPI_UNDEFINED) break;
      ++seen;
      if (index >= WINDOW) continue;
      EXPECT(status.MPI_TAG == THREADS * (index + 1) + thread);
      EXPECT(in[index] == value(last, thread, round, index));
    }
    EXPECT(seen == 2 * WINDOW);
  }
}

// All threads of a rank take what comes, whoever it is for.
static void take_any(int thread, int* out, int* in) {
  const int next = (rank + 1) % size;
  for (int round = 0; round < rounds; ++round) {
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    int count = -1;
    out[0] = thread * rounds + round;
    for (int i = 1; i <= round; ++i) out[i] = out[0] + i;
    MPI_Isend(out, 1 + round, MPI_INT, next, 1 + out[0], pool, &request);
    if (round % 2 == 0) {
      MPI_Recv(in, MOST, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, pool, &status);
    } else {
      MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, pool, &message, &status);
      MPI_Get_count(&status, MPI_INT, &count);
      MPI_Mrecv(in, count, MPI_INT, &message, &status);
    }
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT(status.MPI_TAG == 1 + in[0] && count == 1 + in[0] % rounds);
    EXPECT(in[count - 1] == in[0] + count - 1);
    atomic_fetch_add(&pool_sum, in[0]);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static void collectives(int thread, MPI_Comm comm, int* out, int* in) {
  for (int round = 0; round < rounds; ++round) {
    const int many = length(thread, round), root = round % size;
    MPI_Request request;
    for (int i = 0; i < many; ++i) out[i] = rank + i;
    MPI_Iallreduce(out, in, many, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT(in[many - 1] == size * (size - 1) / 2 + size * (many - 1));
    if (rank == root) fill(in, thread, round);
    MPI_Bcast(in, many, MPI_INT, root, comm);
    EXPECT(is_whole(in, root, thread, round));
    const int mine = rank * THREADS + thread;
    MPI_Allgather(&mine, 1, MPI_INT, in, 1, MPI_INT, comm);
    EXPECT(in[size - 1] == (size - 1) * THREADS + thread);
    if (round % 10 == 0) MPI_Barrier(comm);
  }
}

static void make_communicators(int thread, MPI_Comm comm) {
  for (int round = 0; round < rounds; ++round) {
    MPI_Comm made, part;
    int sum = 0, members = 0;
    MPI_Comm_dup(comm, &made);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, made);
    EXPECT(sum == size * (size - 1) / 2);
    MPI_Comm_split(made, rank % 2, 0, &part);
    MPI_Comm_size(part, &members);
    EXPECT(members == (size + 1 - rank % 2) / 2);
    MPI_Barrier(part);
    MPI_Comm_free(&part);
    MPI_Comm_free(&made);
  }
}

static void* run(void* argument) {
  const int thread = (int)(long)argument;
  int* out = calloc(MOST, sizeof *out);
  int* in = calloc(MOST, sizeof *in);
  exchange(thread, own[thread], 0, out, in);
  exchange(thread, shared, 1, out, in);
  window(thread, shared, out, in);
  take_any(thread, out, in);
  // One makes communicators while the others talk, each in its turn.
  for (int turn = 0; turn < THREADS; ++turn) {
    if (turn == thread) {
      make_communicators(thread, own[thread]);
    } else if ((turn + thread) % 2 == 0) {
      collectives(thread, own[thread], out, in);
    } else {
      exchange(thread, shared, 0, out, in);
    }
  }
  free(out);
  free(in);
  return NULL;
}

int main(int argc, char** argv) {
  int provided = -1;
  pthread_t threads[THREADS];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1) rounds = atoi(argv[1]);
  for (int i = 0; i < THREADS; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
  MPI_Comm_dup(MPI_COMM_WORLD, &shared);
  MPI_Comm_dup(MPI_COMM_WORLD, &pool);
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, run, (void*)(long)i);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  const int all = THREADS * rounds, thread = -1;
  EXPECT(provided == MPI_THREAD_MULTIPLE);
  EXPECT(pool_sum == all * (all - 1) / 2);
  for (int i = 0; i < THREADS; ++i) MPI_Comm_free(&own[i]);
  MPI_Comm_free(&shared);
  MPI_Comm_free(&pool);
  MPI_Finalize();
  if (wrong == 0) printf("fine %d of %d\n", rank, size);
  return wrong != 0;
}
