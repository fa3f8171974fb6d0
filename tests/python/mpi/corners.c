// Corners of the standard that programs rely on. Each rank prints "fine RANK of SIZE".
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kParts = 4, kCount = 64, kRequests = 3, kDups = 8 };

static int rank, size;

static void check(int holds, const char* what) {
  if (holds) return;
  printf("rank %d: %s\n", rank, what);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// No grid of these sizes has its largest and smallest nearer to each other.
static int least_spread(int nodes, int dims, int least, int most) {
  if (dims == 0) return nodes == 1 ? most - least : INT_MAX;
  int best = INT_MAX;
  for (int i = 1; i <= nodes; ++i) {
    if (nodes % i != 0) continue;
    const int spread =
        least_spread(nodes / i, dims - 1, i < least ? i : least, i > most ? i : most);
    if (spread < best) best = spread;
  }
  return best;
}

static void grids_are_balanced(void) {
  for (int nodes = 1; nodes <= 400; nodes += nodes < 100 ? 1 : 12) {
    for (int count = 1; count <= 3; ++count) {
      int dims[3] = {0, 0, 0};
      MPI_Dims_create(nodes, count, dims);
      int product = 1;
      for (int i = 0; i < count; ++i) {
        product *= dims[i];
        check(i == 0 || dims[i] <= dims[i - 1], "sizes of a grid do not fall");
      }
      check(product == nodes, "a grid has other ranks than nodes");
      check(dims[0] - dims[count - 1] == least_spread(nodes, count, nodes, 1),
            "a grid could be more balanced");
    }
  }
  int dims[3] = {0, 5, 0};
  MPI_Dims_create(5 * 72, 3, dims);
  check(dims[0] == 9 && dims[1] == 5 && dims[2] == 8, "a fixed size was changed");
}

static int erased;
static int erase(MPI_Comm comm, int key, void* value, void* state) {
  (void)comm, (void)key, (void)state;
  erased += *(int*)value;
  return MPI_SUCCESS;
}

static void freed_keys_live_in_attributes(void) {
  int one = 1;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, erase, &key, NULL);
  int saved = key;
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, &one);
  MPI_Comm_free_keyval(&key);
  check(key == MPI_KEYVAL_INVALID, "a freed key is not invalid");
  int* value = NULL;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, saved, &value, &found);
  check(found && value == &one, "an attribute went with its key");
  MPI_Comm_delete_attr(MPI_COMM_WORLD, saved);
  check(erased == 1, "the delete function was not called");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, saved, &value, &found) != MPI_SUCCESS,
        "a key outlived its last attribute");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void characters_are_numbers(void) {
  char mine[2] = {(char)(rank + 1), 5};
  char all[2] = {0, 0};
  MPI_Allreduce(mine, all, 2, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
  check(all[0] == size * (size + 1) / 2 && all[1] == 5 * size, "a sum of characters is wrong");
  MPI_Allreduce(mine, all, 2, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
  check(all[0] == size && all[1] == 5, "a maximum of characters is wrong");
}

#if MPI_VERSION >= 4
static int data[kRequests][kParts * kCount];

static void fill(int which, int value) {
  for (int i = 0; i < kParts * kCount; ++i) data[which][i] = value;
}

// Partitioned messages match in the order of their requests, whatever starts first, and no others.
static void partitions_match_by_their_requests(void) {
  MPI_Request requests[kRequests];
  MPI_Request plain = MPI_REQUEST_NULL;
  MPI_Status statuses[kRequests];
  int other = -1;
  if (rank == 0) {
    for (int i = 0; i < kRequests; ++i) {
      MPI_Psend_init(data[i], kParts, kCount, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &requests[i]);
    }
  } else if (rank == 1) {
    MPI_Irecv(&other, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &plain);
    for (int i = 0; i < kRequests; ++i) {
      MPI_Precv_init(data[i], kParts, kCount, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &requests[i]);
    }
  }
  for (int run = 0; run < 3 && rank < 2; ++run) {
    for (int i = 0; i < kRequests; ++i) {
      const int which = rank == 0 ? kRequests - 1 - i : (i + run) % kRequests;
      fill(which, rank == 0 ? 10 * run + which : -1);
      MPI_Start(&requests[which]);
      for (int part = kParts; rank == 0 && part-- > 0;) MPI_Pready(part, requests[which]);
    }
    MPI_Waitall(kRequests, requests, statuses);
    for (int i = 0; i < kRequests && rank == 1; ++i) {
      check(statuses[i].MPI_SOURCE == 0 && statuses[i].MPI_TAG == 7, "a status is another's");
      for (int k = 0; k < kParts * kCount; ++k) {
        check(data[i][k] == 10 * run + i, "partitions went to another request");
      }
    }
  }
  for (int i = 0; i < kRequests && rank < 2; ++i) MPI_Request_free(&requests[i]);
  if (rank == 0) {
    other = 99;
    MPI_Send(&other, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Wait(&plain, MPI_STATUS_IGNORE);
    check(other == 99, "a receive took a partitioned message");
  }
}

static void sets_have_names_in_any_case(void) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://world", &group);
  MPI_Comm_create_from_group(group, "corners", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  check(ranks == size, "the set of all is not all");
  MPI_Group_free(&group);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
}
#endif

// Collectives of an inter-communicator that are under way at the same time, begun in one order and
// ended as each rank gets there.
static void inter_collectives_overlap(void) {
  MPI_Comm half, inter;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &inter);
  MPI_Comm dups[kDups];
  MPI_Request requests[3 * kDups];
  int sums[kDups];
  int count = 0;
  for (int i = 0; i < kDups; ++i) {
    MPI_Comm_idup(inter, &dups[i], &requests[count++]);
    MPI_Iallreduce(&rank, &sums[i], 1, MPI_INT, MPI_SUM, inter, &requests[count++]);
    MPI_Ibarrier(inter, &requests[count++]);
    if (rank % 2 == i % 2) MPI_Wait(&requests[3 * i], MPI_STATUS_IGNORE);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  int far = 0;
  for (int r = 1 - rank % 2; r < size; r += 2) far += r;
  for (int i = 0; i < kDups; ++i) {
    check(sums[i] == far, "a sum over the other side is wrong");
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, dups[i]);
    check(sum == far, "a sum in a duplicate is wrong");
    MPI_Comm_free(&dups[i]);
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) grids_are_balanced();
  freed_keys_live_in_attributes();
  characters_are_numbers();
#if MPI_VERSION >= 4
  partitions_match_by_their_requests();
  sets_have_names_in_any_case();
#endif
  inter_collectives_overlap();
  printf("fine %d of %d\n", rank, size);
  MPI_Finalize();
  return 0;
}
