// 10,000 objects of each kind, made and freed, and 100,000 messages that nobody has asked for yet:
// descriptors, shared memory, threads and resident memory are then what they were before. Every
// rank prints "fine", or what is not.
#define _GNU_SOURCE  // getpid()
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, wrong, many = 10000;

static void expect(int holds, const char* what, int line) {
  if (holds) return;
  ++wrong;
  printf("rank %d, line %d: not so: %s\n", rank, line, what);
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

// Names in a folder that have this part.
static int entries(const char* folder, const char* part) {
  DIR* opened = opendir(folder);
  int count = 0;
  struct dirent* entry;
  while (opened != NULL && (entry = readdir(opened)) != NULL) {
    count += strstr(entry->d_name, part) != NULL;
  }
  if (opened != NULL) closedir(opened);
  return count;
}
static long of_status(const char* field) {
  char line[256];
  long value = -1;
  FILE* status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, field, strlen(field)) == 0) value = atol(line + strlen(field));
  }
  fclose(status);
  return value;
}

typedef struct {
  int descriptors, segments, tasks;
  long resident;  // KiB
} Held;
static Held held(void) {
  char own[32];
  snprintf(own, sizeof own, ".%d.", (int)getpid());  // of this process's segments
  MPI_Barrier(MPI_COMM_WORLD);
  return (Held){entries("/proc/self/fd", ""), entries("/dev/shm", own),
                entries("/proc/self/task", ""), of_status("VmRSS:")};
}

static MPI_Comm shared;
static void dup_comm(int i) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (i % 100 == 0) MPI_Barrier(comm);
  MPI_Comm_free(&comm);
}
static void idup_comm(int i) {
  MPI_Comm comm;
  MPI_Request request;
  (void)i;
  MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm);
}
static void split_comm(int i) {
  MPI_Comm comm;
  int one = 1, sum = 0;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
  if (i % 100 == 0) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  MPI_Comm_free(&comm);
}
static void create_comm(int i) {
  MPI_Group world, group;
  MPI_Comm comm;
  const int only[1] = {i % size};
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, only, &group);
  MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
  if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
}
static void cart_comm(int i) {
  MPI_Comm comm;
  int dims[1] = {size}, periods[1] = {1};
  (void)i;
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm);
  MPI_Comm_free(&comm);
}
static void talk_on_comm(int i) {
  MPI_Comm comm;
  int out = i, in = -1;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm,
               MPI_STATUS_IGNORE);
  if (in != i) ++wrong;
  MPI_Comm_free(&comm);
}
static void types(int i) {
  MPI_Datatype vector, record, again;
  int lengths[2] = {1, 1};
  MPI_Aint at[2] = {0, 256};
  MPI_Datatype both[2];
  double data[64] = {0}, packed[64];
  int position = 0;
  MPI_Type_vector(2 + i % 3, 1, 2, MPI_DOUBLE, &vector);
  both[0] = vector, both[1] = MPI_INT;
  MPI_Type_create_struct(2, lengths, at, both, &record);
  MPI_Type_free(&vector);
  MPI_Type_commit(&record);
  MPI_Type_dup(record, &again);
  MPI_Pack(data, 1, again, packed, sizeof packed, &position, MPI_COMM_WORLD);
  MPI_Type_free(&again);
  MPI_Type_free(&record);
}
static void requests(int i) {
  int out = i, in = -1;
  MPI_Request request[3];
  MPI_Send_init(&out, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &request[0]);
  MPI_Irecv(&in, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &request[1]);
  MPI_Start(&request[0]);
  MPI_Wait(&request[1], MPI_STATUS_IGNORE);
  MPI_Wait(&request[0], MPI_STATUS_IGNORE);
  MPI_Request_free(&request[0]);
  MPI_Irecv(&in, 1, MPI_INT, rank, 4, MPI_COMM_WORLD, &request[2]);
  MPI_Cancel(&request[2]);
  MPI_Wait(&request[2], MPI_STATUS_IGNORE);
  if (in != i) ++wrong;
}
static void collective_requests(int i) {
  int out = i, in = 0;
  MPI_Request request;
  MPI_Iallreduce(&out, &in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (in != i * size) ++wrong;
}
static void groups(int i) {
  MPI_Group world, part, all;
  const int ranks[1] = {i % size};
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_excl(world, 1, ranks, &part);
  MPI_Group_union(part, world, &all);
  MPI_Group_free(&all);
  MPI_Group_free(&part);
  MPI_Group_free(&world);
}
static void infos(int i) {
  MPI_Info info, copy;
  char text[32];
  snprintf(text, sizeof text, "%d", i);
  MPI_Info_create(&info);
  MPI_Info_set(info, "a key of more than 16 bytes", text);
  MPI_Info_dup(info, &copy);
  MPI_Info_free(&info);
  MPI_Info_free(&copy);
}
static void sum(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) ((int*)inout)[i] += ((int*)in)[i];
}
static void ops(int i) {
  MPI_Op op;
  int out = i, in = 0;
  MPI_Op_create(sum, 1, &op);
  if (i % 10 == 0) MPI_Allreduce(&out, &in, 1, MPI_INT, op, MPI_COMM_WORLD);
  if (i % 10 == 0 && in != i * size) ++wrong;
  MPI_Op_free(&op);
}
static void attributes(int i) {
  int keyval;
  (void)i;
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
  MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &keyval);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
  MPI_Comm_free_keyval(&keyval);
}
static void handle(MPI_Comm* comm, int* code, ...) { (void)comm, (void)code; }
static void errhandlers(int i) {
  MPI_Errhandler handler, got;
  (void)i;
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
  MPI_Comm_get_errhandler(MPI_COMM_SELF, &got);
  MPI_Errhandler_free(&got);
  MPI_Errhandler_free(&handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static const struct {
  const char* name;
  void (*make)(int);
} kinds[] = {{"dup", dup_comm},
             {"idup", idup_comm},
             {"split", split_comm},
             {"create", create_comm},
             {"cart", cart_comm},
             {"talk", talk_on_comm},
             {"types", types},
             {"requests", requests},
             {"collective requests", collective_requests},
             {"groups", groups},
             {"infos", infos},
             {"ops", ops},
             {"attributes", attributes},
             {"errhandlers", errhandlers}};

// Rank 0 receives nothing until the others have sent all, or wait for credit.
static void unexpected(int messages) {
  const Held before = held();
  long most = 0;
  if (rank == 0) {
    MPI_Status status;
    // The first announces that all are under way, and comes on another communicator.
    for (int peer = 1; peer < size; ++peer) {
      MPI_Recv(NULL, 0, MPI_INT, peer, 0, shared, MPI_STATUS_IGNORE);
    }
    for (int i = messages - 1; i >= 0; --i) {
      if (i % 10000 == 0) most = of_status("VmRSS:") > most ? of_status("VmRSS:") : most;
      for (int peer = 1; peer < size; ++peer) {
        int data[16] = {0};
        MPI_Recv(data, 16, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        const int number = messages - 1 - status.MPI_TAG;
        if (data[0] != status.MPI_SOURCE || data[15] != number) ++wrong;
      }
    }
    EXPECT(wrong == 0);
    // Each other rank has a credit of 64 MiB, with what a message needs beside its bytes.
    EXPECT(most - before.resident < (size - 1) * 64 * 1024);
  } else {
    MPI_Request* requests = calloc((size_t)messages, sizeof *requests);
    int(*data)[16] = calloc((size_t)messages, sizeof *data);
    for (int i = 0; i < messages; ++i) {
      data[i][0] = rank, data[i][15] = i;
      MPI_Isend(data[i], 16, MPI_INT, 0, messages - 1 - i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Send(NULL, 0, MPI_INT, 0, 0, shared);
    MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(data);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc > 1) many = atoi(argv[1]);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &shared);
  setvbuf(stdout, NULL, _IOLBF, 0);
  // What is kept for use again, and numbers that are not given again at once, are there then.
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; ++kind) {
    for (int i = 0; i < 1000; ++i) kinds[kind].make(i);
  }
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; ++kind) {
    const Held before = held();
    const double start = MPI_Wtime();
    for (int i = 0; i < many; ++i) kinds[kind].make(i);
    const double each = (MPI_Wtime() - start) / many * 1e6;
    const Held after = held();
    const long more = after.resident - before.resident;
    if (argc > 2) printf("rank %d: %s: %.1f us, %ld KiB\n", rank, kinds[kind].name, each, more);
    const int same = after.descriptors == before.descriptors && after.tasks == before.tasks &&
                     after.segments == before.segments;
    if (!same || more > 1024) {
      ++wrong;
      printf("rank %d: after %d of %s: %d descriptors, %d segments, %d threads, %ld KiB more\n",
             rank, many, kinds[kind].name, after.descriptors - before.descriptors,
             after.segments - before.segments, after.tasks - before.tasks, more);
    }
  }
  unexpected(100000);
  MPI_Comm_free(&shared);
  MPI_Finalize();
  if (wrong == 0) printf("fine %d of %d\n", rank, size);
  return wrong != 0;
}
