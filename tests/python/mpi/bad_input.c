// What a program does wrong: every call returns MPI's error class, and a text that names the call,
// the argument, its value and what is accepted. Compiled with the header of each ABI; every rank
// prints "fine", or what is not.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, wrong, checked;

static int class_of(int code) {
  int class = -1;
  MPI_Error_class(code, &class);
  return class;
}

// `words`: parts of the text, parted by '|'.
static void bad(int code, int class, const char* words, int line) {
  char text[MPI_MAX_ERROR_STRING] = "", rest[256];
  int length = 0;
  ++checked;
  MPI_Error_string(code, text, &length);
  const char* missing = NULL;
  snprintf(rest, sizeof rest, "%s", words);
  for (char* word = strtok(rest, "|"); word != NULL; word = strtok(NULL, "|")) {
    if (strstr(text, word) == NULL) missing = word;
  }
  if (class_of(code) == class && missing == NULL) return;
  ++wrong;
  printf("rank %d, line %d: class %d, not %d; no '%s' in: %s\n", rank, line, class_of(code), class,
         missing == NULL ? "" : missing, text);
}
#define BAD(call, class, words) bad((call), (class), (words), __LINE__)

static void expect(int holds, const char* what, int line) {
  ++checked;
  if (holds) return;
  ++wrong;
  printf("rank %d, line %d: not so: %s\n", rank, line, what);
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

// MPICH and Open MPI have no class for these handles.
#ifndef MPI_ERR_ERRHANDLER
#define MPI_ERR_ERRHANDLER MPI_ERR_ARG
#endif

static int one = 1, two[2], many[64];
static int* volatile nowhere;  // compilers warn of a NULL that they see

static void null_handles(void) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Message message = MPI_MESSAGE_NULL;
  int flag, number;
  MPI_Aint lower, extent;
  BAD(MPI_Comm_rank(comm, &number), MPI_ERR_COMM, "MPI_Comm_rank|comm is MPI_COMM_NULL|accepted");
  BAD(MPI_Send(&one, 1, MPI_INT, 0, 0, comm), MPI_ERR_COMM, "MPI_Send|comm is MPI_COMM_NULL");
  BAD(MPI_Barrier(comm), MPI_ERR_COMM, "MPI_Barrier|MPI_COMM_NULL");
  BAD(MPI_Comm_dup(comm, &comm), MPI_ERR_COMM, "MPI_Comm_dup|MPI_COMM_NULL");
  BAD(MPI_Comm_free(&comm), MPI_ERR_COMM, "MPI_Comm_free|MPI_COMM_NULL");
  BAD(MPI_Group_size(group, &number), MPI_ERR_GROUP, "MPI_Group_size|group is MPI_GROUP_NULL");
  BAD(MPI_Group_free(&group), MPI_ERR_GROUP, "MPI_Group_free|MPI_GROUP_NULL");
  BAD(MPI_Type_size(type, &number), MPI_ERR_TYPE, "MPI_Type_size|datatype is MPI_DATATYPE_NULL");
  BAD(MPI_Type_get_extent(type, &lower, &extent), MPI_ERR_TYPE, "MPI_Type_get_extent|NULL");
  BAD(MPI_Type_commit(&type), MPI_ERR_TYPE, "MPI_Type_commit|MPI_DATATYPE_NULL");
  BAD(MPI_Type_free(&type), MPI_ERR_TYPE, "MPI_Type_free|MPI_DATATYPE_NULL");
  BAD(MPI_Type_contiguous(2, type, &type), MPI_ERR_TYPE, "MPI_Type_contiguous|oldtype");
  BAD(MPI_Recv(two, 1, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE), MPI_ERR_TYPE,
      "MPI_Recv|datatype is MPI_DATATYPE_NULL");
  BAD(MPI_Allreduce(&one, two, 1, MPI_INT, op, MPI_COMM_SELF), MPI_ERR_OP,
      "MPI_Allreduce|op is MPI_OP_NULL");
  BAD(MPI_Op_free(&op), MPI_ERR_OP, "MPI_Op_free|MPI_OP_NULL");
  BAD(MPI_Info_set(info, "key", "value"), MPI_ERR_INFO, "MPI_Info_set|info is MPI_INFO_NULL");
  BAD(MPI_Info_free(&info), MPI_ERR_INFO, "MPI_Info_free|MPI_INFO_NULL");
  BAD(MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_Request_free|request is MPI_REQUEST_NULL");
  BAD(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel|request is MPI_REQUEST_NULL");
  BAD(MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start|MPI_REQUEST_NULL");
  BAD(MPI_Grequest_complete(request), MPI_ERR_REQUEST, "MPI_Grequest_complete|MPI_REQUEST_NULL");
  BAD(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler), MPI_ERR_ERRHANDLER,
      "MPI_Comm_set_errhandler|errhandler is MPI_ERRHANDLER_NULL");
  BAD(MPI_Errhandler_free(&handler), MPI_ERR_ERRHANDLER, "MPI_Errhandler_free|NULL");
  BAD(MPI_Mrecv(two, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_REQUEST,
      "MPI_Mrecv|message is MPI_MESSAGE_NULL");
  flag = 0;
  EXPECT(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);  // which is nothing bad
  EXPECT(MPI_Test(&request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag);
}

static void freed_handles(void) {
  MPI_Comm comm, stale_comm;
  MPI_Group group, stale_group;
  MPI_Datatype type, outer, stale_type;
  MPI_Op op, stale_op;
  MPI_Info info, stale_info;
  MPI_Request request, stale_request;
  MPI_Errhandler handler, stale_handler;
  int number, keyval, flag;
  void* value;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  stale_comm = comm;
  MPI_Comm_free(&comm);
  BAD(MPI_Comm_size(stale_comm, &number), MPI_ERR_COMM, "MPI_Comm_size|comm is 0x|freed|accepted");
  BAD(MPI_Bcast(&one, 1, MPI_INT, 0, stale_comm), MPI_ERR_COMM, "MPI_Bcast|comm is 0x|freed");
  BAD(MPI_Comm_free(&stale_comm), MPI_ERR_COMM, "MPI_Comm_free|comm is 0x|freed");
  // The communicator's group and error handler live on.
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  stale_group = group;
  MPI_Group_free(&group);
  BAD(MPI_Group_rank(stale_group, &number), MPI_ERR_GROUP, "MPI_Group_rank|group is 0x|freed");
  BAD(MPI_Group_free(&stale_group), MPI_ERR_GROUP, "MPI_Group_free|group is 0x|freed");
  BAD(MPI_Comm_create(MPI_COMM_SELF, stale_group, &comm), MPI_ERR_GROUP, "MPI_Comm_create|freed");
  MPI_Type_vector(2, 1, 3, MPI_INT, &type);
  MPI_Type_commit(&type);
  stale_type = type;
  MPI_Type_free(&type);
  BAD(MPI_Send(many, 1, stale_type, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE, "MPI_Send|datatype|freed");
  BAD(MPI_Type_dup(stale_type, &type), MPI_ERR_TYPE, "MPI_Type_dup|oldtype is 0x|freed");
  BAD(MPI_Type_free(&stale_type), MPI_ERR_TYPE, "MPI_Type_free|datatype is 0x|freed");
  MPI_Op_create((MPI_User_function*)abort, 1, &op);
  stale_op = op;
  MPI_Op_free(&op);
  BAD(MPI_Reduce(&one, two, 1, MPI_INT, stale_op, 0, MPI_COMM_SELF), MPI_ERR_OP,
      "MPI_Reduce|op is 0x|freed");
  MPI_Info_create(&info);
  stale_info = info;
  MPI_Info_free(&info);
  BAD(MPI_Info_get_nkeys(stale_info, &number), MPI_ERR_INFO, "MPI_Info_get_nkeys|info is 0x|freed");
  MPI_Send_init(&one, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
  stale_request = request;
  MPI_Request_free(&request);
  BAD(MPI_Start(&stale_request), MPI_ERR_REQUEST, "MPI_Start|request is 0x|freed");
  BAD(MPI_Wait(&stale_request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "MPI_Wait|request is 0x|freed");
  MPI_Request both[2] = {MPI_REQUEST_NULL, stale_request};
  BAD(MPI_Waitall(2, both, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST, "MPI_Waitall|[1]");
  BAD(MPI_Waitany(2, both, &number, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "MPI_Waitany|[1]");
  MPI_Comm_create_errhandler((MPI_Comm_errhandler_function*)abort, &handler);
  stale_handler = handler;
  MPI_Errhandler_free(&handler);
  BAD(MPI_Comm_set_errhandler(MPI_COMM_SELF, stale_handler), MPI_ERR_ERRHANDLER,
      "MPI_Comm_set_errhandler|errhandler is 0x|freed");
  MPI_Comm_create_errhandler((MPI_Comm_errhandler_function*)abort, &handler);
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, handler);
  stale_handler = handler;
  MPI_Errhandler_free(&handler);
  BAD(MPI_Errhandler_free(&stale_handler), MPI_ERR_ERRHANDLER, "MPI_Errhandler_free|freed");
  EXPECT(MPI_Comm_get_errhandler(comm, &handler) == MPI_SUCCESS);
  EXPECT(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler) == MPI_SUCCESS);
  EXPECT(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN) == MPI_SUCCESS);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&comm);
  // A type within another, and a receive under way that was freed.
  MPI_Type_contiguous(2, MPI_INT, &type);
  MPI_Type_contiguous(2, type, &outer);
  stale_type = type;
  MPI_Type_free(&type);
  BAD(MPI_Type_free(&stale_type), MPI_ERR_TYPE, "MPI_Type_free|datatype is 0x|freed");
  EXPECT(MPI_Type_get_contents(outer, 1, 0, 1, &number, NULL, &type) == MPI_SUCCESS);
  EXPECT(MPI_Type_free(&type) == MPI_SUCCESS);
  BAD(MPI_Type_free(&stale_type), MPI_ERR_TYPE, "MPI_Type_free|datatype is 0x|freed");
  MPI_Type_free(&outer);
  MPI_Irecv(two, 1, MPI_INT, 0, 11, MPI_COMM_SELF, &request);
  stale_request = request;
  MPI_Request_free(&request);
  BAD(MPI_Wait(&stale_request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "MPI_Wait|request is 0x|freed");
  MPI_Send(&one, 1, MPI_INT, 0, 11, MPI_COMM_SELF);
  MPI_Isend(&one, 1, MPI_INT, 0, 12, MPI_COMM_SELF, &both[0]);
  both[1] = both[0];
  MPI_Recv(two, 1, MPI_INT, 0, 12, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  BAD(MPI_Waitall(2, both, MPI_STATUSES_IGNORE), MPI_ERR_IN_STATUS, "MPI_Waitall|[1]|twice");
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
  const int stale_keyval = keyval;
  MPI_Comm_free_keyval(&keyval);
  BAD(MPI_Comm_set_attr(MPI_COMM_SELF, stale_keyval, NULL), MPI_ERR_KEYVAL,
      "MPI_Comm_set_attr|keyval is");
  BAD(MPI_Comm_get_attr(MPI_COMM_SELF, MPI_KEYVAL_INVALID, &value, &flag), MPI_ERR_KEYVAL,
      "MPI_Comm_get_attr|keyval is");
}

static void predefined_handles(void) {
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Datatype type = MPI_INT;
  MPI_Op op = MPI_SUM;
  BAD(MPI_Comm_free(&comm), MPI_ERR_COMM, "MPI_Comm_free|MPI_COMM_WORLD");
  EXPECT(comm == MPI_COMM_WORLD);
  BAD(MPI_Type_free(&type), MPI_ERR_TYPE, "MPI_Type_free|MPI_INT");
  EXPECT(type == MPI_INT);
  BAD(MPI_Op_free(&op), MPI_ERR_OP, "MPI_Op_free|op");
  EXPECT(op == MPI_SUM);
}

static void numbers(void) {
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm world = MPI_COMM_WORLD, comm;
  char above[64];
  snprintf(above, sizeof above, "MPI_Send|dest is %d|0 to %d", size, size - 1);
  BAD(MPI_Send(&one, 1, MPI_INT, size, 0, world), MPI_ERR_RANK, above);
  BAD(MPI_Send(&one, 1, MPI_INT, -77, 0, world), MPI_ERR_RANK, "MPI_Send|dest is -77|accepted: 0");
  BAD(MPI_Isend(&one, 1, MPI_INT, MPI_ANY_SOURCE, 0, world, &request), MPI_ERR_RANK,
      "MPI_Isend|dest is|accepted");
  BAD(MPI_Recv(two, 1, MPI_INT, size + 5, 0, world, &status), MPI_ERR_RANK, "MPI_Recv|source is");
  BAD(MPI_Probe(-77, 0, world, &status), MPI_ERR_RANK, "MPI_Probe|source is -77|MPI_ANY_SOURCE");
  BAD(MPI_Bcast(&one, 1, MPI_INT, size, world), MPI_ERR_ROOT, "MPI_Bcast|root is|accepted: 0 to");
  BAD(MPI_Gather(&one, 1, MPI_INT, many, 1, MPI_INT, -1, world), MPI_ERR_ROOT, "MPI_Gather|root");
  BAD(MPI_Send(&one, 1, MPI_INT, 0, -5, world), MPI_ERR_TAG, "MPI_Send|tag is -5|MPI_TAG_UB");
  BAD(MPI_Send(&one, 1, MPI_INT, 0, MPI_ANY_TAG, world), MPI_ERR_TAG, "MPI_Send|tag is");
  BAD(MPI_Irecv(two, 1, MPI_INT, 0, -77, world, &request), MPI_ERR_TAG,
      "MPI_Irecv|tag is -77|MPI_ANY_TAG");
  BAD(MPI_Sendrecv(&one, 1, MPI_INT, 0, -4, two, 1, MPI_INT, 0, 0, world, &status), MPI_ERR_TAG,
      "MPI_Sendrecv|sendtag is -4");
  BAD(MPI_Send(&one, -1, MPI_INT, 0, 0, world), MPI_ERR_COUNT, "MPI_Send|count is -1|0 or more");
  BAD(MPI_Recv(two, -3, MPI_INT, 0, 0, world, &status), MPI_ERR_COUNT, "MPI_Recv|count is -3");
  BAD(MPI_Bcast(&one, -2, MPI_INT, 0, world), MPI_ERR_COUNT, "MPI_Bcast|count is -2");
  BAD(MPI_Allreduce(&one, two, -2, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT, "MPI_Allreduce|-2");
  BAD(MPI_Allgather(&one, 1, MPI_INT, many, -9, MPI_INT, world), MPI_ERR_COUNT,
      "MPI_Allgather|recvcount is -9");
  BAD(MPI_Alltoall(many, -4, MPI_INT, many + 32, 1, MPI_INT, world), MPI_ERR_COUNT,
      "MPI_Alltoall|sendcount is -4");
  int counts[64] = {-6}, zeros[64] = {0};
  BAD(MPI_Allgatherv(&one, 1, MPI_INT, many, counts, zeros, MPI_INT, world), MPI_ERR_COUNT,
      "MPI_Allgatherv|recvcounts[0] is -6");
  BAD(MPI_Reduce_scatter(many, two, counts, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT,
      "MPI_Reduce_scatter|recvcounts[0] is -6");
  BAD(MPI_Send(NULL, 1, MPI_INT, 0, 0, world), MPI_ERR_BUFFER, "MPI_Send|buf is a null pointer");
  BAD(MPI_Send(MPI_IN_PLACE, 1, MPI_INT, 0, 0, world), MPI_ERR_BUFFER, "MPI_Send|MPI_IN_PLACE");
  BAD(MPI_Recv(MPI_IN_PLACE, 1, MPI_INT, 0, 0, world, &status), MPI_ERR_BUFFER,
      "MPI_Recv|MPI_IN_PLACE");
  BAD(MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, world), MPI_ERR_BUFFER, "MPI_Bcast|MPI_IN_PLACE");
  BAD(MPI_Allreduce(&one, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER,
      "MPI_Allreduce|recvbuf is MPI_IN_PLACE");
  BAD(MPI_Allreduce(&one, NULL, 1, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER,
      "MPI_Allreduce|recvbuf is a null pointer");
  BAD(MPI_Allgather(&one, 1, MPI_INT, NULL, 1, MPI_INT, world), MPI_ERR_BUFFER,
      "MPI_Allgather|recvbuf is a null pointer");
  BAD(MPI_Scatter(MPI_IN_PLACE, 1, MPI_INT, two, 1, MPI_INT, 0, MPI_COMM_SELF), MPI_ERR_BUFFER,
      "MPI_Scatter|sendbuf is MPI_IN_PLACE");
  BAD(MPI_Comm_rank(world, NULL), MPI_ERR_ARG, "MPI_Comm_rank|rank is null");
  BAD(MPI_Waitall(-1, &request, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, "MPI_Waitall|count is -1");
  BAD(MPI_Comm_split(MPI_COMM_SELF, -8, 0, &comm), MPI_ERR_ARG, "MPI_Comm_split|color is -8");
  BAD(MPI_Comm_split_type(MPI_COMM_SELF, 4711, 0, MPI_INFO_NULL, &comm), MPI_ERR_ARG,
      "MPI_Comm_split_type|split_type");
}

static void shapes(void) {
  MPI_Comm comm;
  MPI_Group world, group;
  int dims[2] = {size + 1, 2}, periods[2] = {0, 0}, number, ranks[2] = {0, size};
  int range[1][3] = {{0, size + 3, 1}}, twice[2] = {0, 0};
  BAD(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comm), MPI_ERR_TOPOLOGY,
      "MPI_Cart_create|grid has");
  BAD(MPI_Cart_create(MPI_COMM_SELF, -1, dims, periods, 0, &comm), MPI_ERR_ARG,
      "MPI_Cart_create|ndims is -1");
  BAD(MPI_Cart_coords(MPI_COMM_WORLD, 0, 2, dims), MPI_ERR_TOPOLOGY, "MPI_Cart_coords|comm");
  BAD(MPI_Graphdims_get(MPI_COMM_WORLD, &number, &number), MPI_ERR_TOPOLOGY, "MPI_Graphdims_get");
  BAD(MPI_Neighbor_allgather(&one, 1, MPI_INT, many, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TOPOLOGY,
      "MPI_Neighbor_allgather");
  int given[2] = {7, 0};
  BAD(MPI_Dims_create(6, 2, given), MPI_ERR_DIMS, "MPI_Dims_create");
  BAD(MPI_Dims_create(-6, 2, given), MPI_ERR_ARG, "MPI_Dims_create|nnodes is -6");
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  BAD(MPI_Group_incl(world, 2, ranks, &group), MPI_ERR_RANK, "MPI_Group_incl|ranks[1] is");
  BAD(MPI_Group_incl(world, 2, twice, &group), MPI_ERR_RANK, "MPI_Group_incl|ranks[1] is 0");
  BAD(MPI_Group_excl(world, -2, ranks, &group), MPI_ERR_ARG, "MPI_Group_excl|n is -2");
  BAD(MPI_Group_range_incl(world, 1, range, &group), MPI_ERR_RANK, "MPI_Group_range_incl");
  range[0][1] = 0;
  range[0][2] = 0;
  BAD(MPI_Group_range_incl(world, 1, range, &group), MPI_ERR_ARG, "MPI_Group_range_incl");
  BAD(MPI_Group_translate_ranks(world, 2, ranks, world, twice), MPI_ERR_RANK,
      "MPI_Group_translate_ranks|ranks1[1] is");
  MPI_Group_free(&world);
  BAD(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &comm), MPI_ERR_COMM, "MPI_Intercomm_merge|comm");
  BAD(MPI_Comm_remote_size(MPI_COMM_WORLD, &number), MPI_ERR_COMM, "MPI_Comm_remote_size|comm");
  BAD(MPI_Intercomm_create(MPI_COMM_SELF, 3, MPI_COMM_WORLD, 0, 0, &comm), MPI_ERR_RANK,
      "MPI_Intercomm_create|local_leader is 3");
}

// Null pointers where arrays of a length are due.
static void null_arrays(void) {
  MPI_Comm cart, comm;
  MPI_Group group;
  MPI_Datatype type;
  MPI_Request request;
  int dims[1] = {1}, wraps[1] = {1}, number, flag;
  const int arg = MPI_ERR_ARG;
  const MPI_Comm self = MPI_COMM_SELF;
  MPI_Comm_group(self, &group);
  MPI_Cart_create(self, 1, dims, wraps, 0, &cart);
  BAD(MPI_Group_incl(group, 1, NULL, &group), arg, "MPI_Group_incl|ranks is a null pointer");
  BAD(MPI_Cart_create(self, 1, NULL, wraps, 0, &comm), arg, "MPI_Cart_create|dims is a null");
  BAD(MPI_Cart_rank(cart, NULL, &number), arg, "MPI_Cart_rank|coords is a null pointer");
  BAD(MPI_Cart_sub(cart, NULL, &comm), arg, "MPI_Cart_sub|remain_dims is a null pointer");
  BAD(MPI_Cart_coords(cart, 0, 1, NULL), arg, "MPI_Cart_coords|coords is a null pointer");
  BAD(MPI_Dims_create(6, 2, NULL), arg, "MPI_Dims_create|dims is a null pointer|array of 2");
  BAD(MPI_Graph_create(self, 1, NULL, NULL, 0, &comm), arg, "MPI_Graph_create|index is a null");
  BAD(MPI_Dist_graph_create_adjacent(self, 1, nowhere, MPI_UNWEIGHTED, 0, nowhere, MPI_UNWEIGHTED,
                                     MPI_INFO_NULL, 0, &comm),
      arg, "MPI_Dist_graph_create_adjacent|sources is a null pointer");
  BAD(MPI_Type_indexed(2, NULL, NULL, MPI_INT, &type), arg, "MPI_Type_indexed|null pointer");
  BAD(MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE), arg, "MPI_Waitall|array_of_requests is a null");
  BAD(MPI_Testany(1, NULL, &number, &flag, MPI_STATUS_IGNORE), arg, "MPI_Testany|null pointer");
  BAD(MPI_Startall(2, NULL), arg, "MPI_Startall|array_of_requests is a null pointer");
  MPI_Isend(&one, 1, MPI_INT, MPI_PROC_NULL, 0, self, &request);
  BAD(MPI_Waitsome(1, &request, &number, NULL, MPI_STATUSES_IGNORE), arg,
      "MPI_Waitsome|array_of_indices is a null pointer");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  BAD(MPI_Alltoallv(many, NULL, NULL, MPI_INT, two, NULL, NULL, MPI_INT, self), arg,
      "MPI_Alltoallv|null pointer");
  BAD(MPI_Alltoallw(many, NULL, NULL, NULL, two, NULL, NULL, NULL, self), arg,
      "MPI_Alltoallw|recvcounts is a null pointer");
  BAD(MPI_Reduce_scatter(many, two, NULL, MPI_INT, MPI_SUM, self), arg,
      "MPI_Reduce_scatter|recvcounts is a null pointer");
  BAD(MPI_Neighbor_alltoallv(many, NULL, NULL, MPI_INT, two, NULL, NULL, MPI_INT, cart), arg,
      "MPI_Neighbor_alltoallv|null pointer");
  BAD(MPI_Neighbor_allgather(NULL, 1, MPI_INT, many, 1, MPI_INT, cart), MPI_ERR_BUFFER,
      "MPI_Neighbor_allgather|sendbuf is a null pointer");
  BAD(MPI_Neighbor_allgather(MPI_IN_PLACE, 1, MPI_INT, many, 1, MPI_INT, cart), MPI_ERR_BUFFER,
      "MPI_Neighbor_allgather|sendbuf is MPI_IN_PLACE");
  MPI_Comm_free(&cart);
  MPI_Group_free(&group);
}

static void datatypes(void) {
  MPI_Datatype type, made;
  int lengths[2] = {1, -4}, starts[2] = {0, 1}, sizes[2] = {4, 4}, parts[2] = {2, 5};
  MPI_Aint at[2] = {0, 8};
  MPI_Datatype types[2] = {MPI_INT, MPI_DATATYPE_NULL};
  int position = 0, number;
  char room[4];
  BAD(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT, "MPI_Type_contiguous|count is -1");
  BAD(MPI_Type_vector(-2, 1, 1, MPI_INT, &type), MPI_ERR_COUNT, "MPI_Type_vector|count is -2");
  BAD(MPI_Type_vector(2, -1, 1, MPI_INT, &type), MPI_ERR_ARG, "MPI_Type_vector|blocklength is -1");
  BAD(MPI_Type_indexed(2, lengths, starts, MPI_INT, &type), MPI_ERR_ARG,
      "MPI_Type_indexed|array_of_blocklengths[1] is -4");
  lengths[1] = 1;
  BAD(MPI_Type_create_struct(2, lengths, at, types, &type), MPI_ERR_TYPE,
      "MPI_Type_create_struct|array_of_types[1] is MPI_DATATYPE_NULL");
  BAD(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG,
      "MPI_Type_create_subarray|[1] is 5");
  parts[1] = 2;
  BAD(MPI_Type_create_subarray(2, sizes, parts, starts, 4711, MPI_INT, &type), MPI_ERR_ARG,
      "MPI_Type_create_subarray|order is");
  MPI_Type_contiguous(2, MPI_INT, &type);
  BAD(MPI_Send(two, 1, type, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE, "MPI_Send|datatype|committed");
  BAD(MPI_Recv(two, 1, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE), MPI_ERR_TYPE,
      "MPI_Recv|datatype|committed");
  BAD(MPI_Bcast(two, 1, type, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "MPI_Bcast|datatype|committed");
  BAD(MPI_Pack(two, 1, type, room, 4, &position, MPI_COMM_SELF), MPI_ERR_TYPE,
      "MPI_Pack|datatype|committed");
  MPI_Type_commit(&type);
  BAD(MPI_Pack(two, 1, type, room, 4, &position, MPI_COMM_SELF), MPI_ERR_TRUNCATE,
      "MPI_Pack|outsize is 4");
  BAD(MPI_Unpack(room, 4, &position, two, 1, type, MPI_COMM_SELF), MPI_ERR_TRUNCATE,
      "MPI_Unpack|insize is 4");
  BAD(MPI_Type_get_contents(MPI_INT, 1, 1, 1, &number, at, &made), MPI_ERR_TYPE,
      "MPI_Type_get_contents|MPI_INT");
  BAD(MPI_Type_get_contents(type, 0, 0, 0, &number, at, &made), MPI_ERR_ARG,
      "MPI_Type_get_contents|max_integers is 0");
  BAD(MPI_Allreduce(two, many, 1, type, MPI_SUM, MPI_COMM_SELF), MPI_ERR_OP,
      "MPI_Allreduce|MPI_SUM");
  BAD(MPI_Allreduce(two, many, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_SELF), MPI_ERR_OP,
      "MPI_Allreduce|MPI_BAND|MPI_DOUBLE");
  BAD(MPI_Allreduce(two, many, 1, MPI_INT, MPI_MINLOC, MPI_COMM_SELF), MPI_ERR_OP,
      "MPI_Allreduce|MPI_MINLOC|MPI_INT");
  BAD(MPI_Type_match_size(MPI_TYPECLASS_REAL, 7, &made), MPI_ERR_ARG, "MPI_Type_match_size|7");
  MPI_Type_free(&type);
}

// Bytes that a receive would write twice.
static void overlaps(void) {
  MPI_Datatype vector, still, both[3];
  MPI_Message message;
  MPI_Type_vector(2, 2, 1, MPI_INT, &vector);
  MPI_Type_create_resized(MPI_INT, 0, 0, &still);
  MPI_Type_commit(&vector);
  MPI_Type_commit(&still);
  MPI_Request request = MPI_REQUEST_NULL;
  const MPI_Comm self = MPI_COMM_SELF;
  both[0] = vector, both[1] = still;
  for (int i = 0; i < 2; ++i) {
    const int count = 1 + i;
    BAD(MPI_Recv(many, count, both[i], 0, 0, self, MPI_STATUS_IGNORE), MPI_ERR_TYPE,
        "MPI_Recv|datatype|twice");
    BAD(MPI_Irecv(many, count, both[i], 0, 0, self, &request), MPI_ERR_TYPE,
        "MPI_Irecv|datatype|twice");
    BAD(MPI_Recv_init(many, count, both[i], 0, 0, self, &request), MPI_ERR_TYPE,
        "MPI_Recv_init|datatype|twice");
    BAD(MPI_Gather(many, 1, MPI_INT, many + 8, count, both[i], 0, self), MPI_ERR_TYPE,
        "MPI_Gather|recvtype|twice");
    BAD(MPI_Alltoall(many, count, MPI_INT, many + 8, count, both[i], self), MPI_ERR_TYPE,
        "MPI_Alltoall|recvtype|twice");
    MPI_Isend(many, 1, MPI_INT, 0, 2, self, &request);
    MPI_Mprobe(0, 2, self, &message, MPI_STATUS_IGNORE);
    BAD(MPI_Mrecv(many, count, both[i], &message, MPI_STATUS_IGNORE), MPI_ERR_TYPE,
        "MPI_Mrecv|datatype|twice");
    MPI_Mrecv(many, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    // A send may name bytes twice.
    EXPECT(MPI_Sendrecv(many, count, both[i], 0, 1, many + 8, 8, MPI_INT, 0, 1, self,
                        MPI_STATUS_IGNORE) == MPI_SUCCESS);
  }
  if (rank > 0) {
    BAD(MPI_Scatter(NULL, 0, MPI_INT, many, 1, vector, 0, MPI_COMM_WORLD), MPI_ERR_TYPE,
        "MPI_Scatter|recvtype|twice");
  }
  EXPECT(MPI_Recv(many, 1, still, MPI_PROC_NULL, 0, self, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  MPI_Type_free(&vector);
  MPI_Type_free(&still);
}

static void truncation(void) {
  MPI_Status status, statuses[2];
  MPI_Request requests[2];
  const MPI_Comm self = MPI_COMM_SELF;
  MPI_Isend(many, 8, MPI_INT, 0, 3, self, &requests[0]);
  many[41] = 4711;
  BAD(MPI_Recv(many + 40, 1, MPI_INT, 0, 3, self, &status), MPI_ERR_TRUNCATE,
      "MPI_Recv|tag 3|room for 4");
  EXPECT(many[41] == 4711);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Irecv(many + 40, 1, MPI_INT, 0, 4, self, &requests[0]);
  MPI_Isend(many, 8, MPI_INT, 0, 4, self, &requests[1]);
  BAD(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS, "MPI_Waitall");
  EXPECT(class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE);
  EXPECT(statuses[1].MPI_ERROR == MPI_SUCCESS);
  EXPECT(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
  // Between ranks, eager and announced.
  for (int count = 8; count <= 8 << 15; count += (8 << 15) - 8) {
    int* large = calloc((size_t)count, sizeof *large);
    if (rank == 0) {
      for (int peer = 1; peer < size; ++peer) {
        MPI_Send(large, count, MPI_INT, peer, 5, MPI_COMM_WORLD);
      }
    } else {
      BAD(MPI_Recv(large, 2, MPI_INT, 0, 5, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE,
          "MPI_Recv|source 0, tag 5|room for 8");
    }
    free(large);
  }
}

static void objects(void) {
  MPI_Info info;
  MPI_Request request;
  MPI_Status status;
  char long_key[MPI_MAX_INFO_KEY + 2], text[8];
  int number, flag;
  void* buffer;
  memset(long_key, 'k', sizeof long_key);
  long_key[sizeof long_key - 1] = '\0';
  MPI_Info_create(&info);
  BAD(MPI_Info_set(info, long_key, "v"), MPI_ERR_INFO_KEY, "MPI_Info_set|key");
  BAD(MPI_Info_set(info, "", "v"), MPI_ERR_INFO_KEY, "MPI_Info_set|key");
  BAD(MPI_Info_set(info, "k", NULL), MPI_ERR_INFO_VALUE, "MPI_Info_set|value");
  BAD(MPI_Info_delete(info, "none"), MPI_ERR_INFO_NOKEY, "MPI_Info_delete|none");
  BAD(MPI_Info_get_nthkey(info, 3, text), MPI_ERR_ARG, "MPI_Info_get_nthkey|n is 3");
  MPI_Info_free(&info);
  BAD(MPI_Bsend(&one, 1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_BUFFER, "MPI_Bsend|attach");
  BAD(MPI_Buffer_attach(many, -1), MPI_ERR_ARG, "MPI_Buffer_attach|size is -1");
  EXPECT(MPI_Buffer_attach(many, 16) == MPI_SUCCESS);
  BAD(MPI_Buffer_attach(many, 16), MPI_ERR_BUFFER, "MPI_Buffer_attach");
  BAD(MPI_Bsend(two, 2, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_BUFFER, "MPI_Bsend|16 bytes");
  MPI_Buffer_detach(&buffer, &number);
  MPI_Isend(&one, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &request);
  BAD(MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start|request");
  BAD(MPI_Grequest_complete(request), MPI_ERR_REQUEST, "MPI_Grequest_complete|request");
  MPI_Recv(two, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &status);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Recv_init(two, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &request);
  MPI_Start(&request);
  BAD(MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start|request");
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Request_free(&request);
  BAD(MPI_Error_class(-4711, &number), MPI_ERR_ARG, "MPI_Error_class|errorcode");
  BAD(MPI_Init(NULL, NULL), MPI_ERR_OTHER, "MPI_Init|initialized already");
  BAD(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &flag), MPI_ERR_OTHER,
      "MPI_Init_thread|initialized already");
}

static void missing(void) {
  MPI_Win win = MPI_WIN_NULL;
  MPI_File file = MPI_FILE_NULL;
  MPI_Comm comm;
  char port[MPI_MAX_PORT_NAME];
  const int none = MPI_ERR_UNSUPPORTED_OPERATION;
  BAD(MPI_Win_create(many, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), none,
      "MPI_Win_create|lacks");
  BAD(MPI_Win_free(&win), none, "MPI_Win_free|lacks");
  BAD(MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win), none, "MPI_Put|lacks");
  BAD(MPI_File_open(MPI_COMM_WORLD, "f", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), none,
      "MPI_File_open|lacks");
  BAD(MPI_Comm_spawn("p", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm,
                     MPI_ERRCODES_IGNORE),
      none, "MPI_Comm_spawn|lacks");
  BAD(MPI_Open_port(MPI_INFO_NULL, port), none, "MPI_Open_port|lacks");
}

// Every rank is told what the others called.
static void mismatches(void) {
  MPI_Comm comm;
  const int root = rank == 0 ? 0 : 1, count = rank == 0 ? 1 : 2;
  for (int kind = 0; kind < 6; ++kind) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS;
    if (kind == 0) code = rank == 0 ? MPI_Barrier(comm) : MPI_Bcast(two, 1, MPI_INT, 0, comm);
    if (kind == 1) code = MPI_Bcast(two, 1, MPI_INT, root, comm);
    if (kind == 2) code = MPI_Allreduce(many, two, count, MPI_INT, MPI_SUM, comm);
    if (kind == 3) {
      code = MPI_Allreduce(many, two, 1, MPI_INT, rank == 0 ? MPI_SUM : MPI_MAX, comm);
    }
    if (kind == 4) code = MPI_Bcast(many, count, MPI_INT, 0, comm);
    if (kind == 5) {
      if (rank == 0) MPI_Ibarrier(comm, &request);
      if (rank != 0) MPI_Iallreduce(many, two, 1, MPI_INT, MPI_SUM, comm, &request);
      code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    // A root may be gone before the others come; then it hears of it at its next call.
    if (code == MPI_SUCCESS) code = MPI_Barrier(comm);
    BAD(code, MPI_ERR_NOT_SAME, "MPI_|calls do not match|this rank has|rank 0 called");
    MPI_Comm_free(&comm);
  }
}

int main(int argc, char** argv) {
  int sum = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  null_handles();
  freed_handles();
  predefined_handles();
  numbers();
  shapes();
  null_arrays();
  datatypes();
  overlaps();
  truncation();
  objects();
  missing();
  if (size > 1) mismatches();
  // And the program goes on.
  EXPECT(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
  EXPECT(sum == size);
  MPI_Finalize();
  if (wrong == 0) printf("fine %d of %d\n", rank, size);
  return wrong != 0;
}
