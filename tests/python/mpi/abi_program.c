// What differs between the ABIs, asked for in one program: names of numbers, handles, statuses,
// callbacks. Compiled with the header of each; every rank prints "fine", or what is not.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, wrong;

static void expect(int holds, const char* what, int line) {
  if (holds) return;
  ++wrong;
  printf("rank %d, line %d: not so: %s\n", rank, line, what);
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

static int class_of(int code) {
  int class = -1;
  MPI_Error_class(code, &class);
  return class;
}

static void names_of_numbers(void) {
  int version, subversion, provided = -1, flag;
  MPI_Get_version(&version, &subversion);
  EXPECT(version == MPI_VERSION && subversion == MPI_SUBVERSION);
  MPI_Query_thread(&provided);
  EXPECT(provided == MPI_THREAD_MULTIPLE);
  int* value = NULL;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
  EXPECT(flag && *value >= 32767);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag);
  EXPECT(flag && *value == MPI_ERR_LASTCODE);
  int added = 0;
  MPI_Add_error_class(&added);
  EXPECT(added > MPI_ERR_LASTCODE);
  EXPECT(class_of(added) == added);
  int result = -1;
  MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result);
  EXPECT(result == MPI_IDENT);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_compare(MPI_COMM_WORLD, copy, &result);
  EXPECT(result == MPI_CONGRUENT);
  MPI_Topo_test(copy, &result);
  EXPECT(result == MPI_UNDEFINED);
  MPI_Comm_free(&copy);
  EXPECT(copy == MPI_COMM_NULL);
  int dims[1] = {size}, periods[1] = {0}, below, above;
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &copy);
  MPI_Topo_test(copy, &result);
  EXPECT(result == MPI_CART);
  MPI_Cart_shift(copy, 0, 1, &below, &above);
  EXPECT(below == (rank == 0 ? MPI_PROC_NULL : rank - 1));
  EXPECT(above == (rank == size - 1 ? MPI_PROC_NULL : rank + 1));
  MPI_Comm_free(&copy);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : MPI_UNDEFINED, 0, &copy);
  EXPECT((copy == MPI_COMM_NULL) == (rank != 0));
  if (copy != MPI_COMM_NULL) MPI_Comm_free(&copy);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &copy);
  MPI_Comm_size(copy, &result);
  EXPECT(result == size);
  MPI_Comm_free(&copy);
}

static void messages(void) {
  const int next = (rank + 1) % size, last = (rank + size - 1) % size;
  int given = 100 + rank, taken = -1, count = -1;
  MPI_Status status;
  MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  status.MPI_ERROR = 4711;
  MPI_Isend(&given, 1, MPI_INT, next, 7, MPI_COMM_WORLD, &requests[1]);
  MPI_Recv(&taken, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  EXPECT(taken == 100 + last && status.MPI_SOURCE == last && status.MPI_TAG == 7);
  EXPECT(status.MPI_ERROR == 4711);
  MPI_Get_count(&status, MPI_INT, &count);
  EXPECT(count == 1);
  MPI_Get_count(&status, MPI_DOUBLE, &count);
  EXPECT(count == MPI_UNDEFINED);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  EXPECT(requests[1] == MPI_REQUEST_NULL);
  int index = 0;
  MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
  EXPECT(index == MPI_UNDEFINED);
  MPI_Recv(&taken, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  EXPECT(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
  MPI_Send(&given, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  MPI_Message message;
  MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  EXPECT(message == MPI_MESSAGE_NO_PROC);
  MPI_Mrecv(&taken, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
  EXPECT(message == MPI_MESSAGE_NULL);
}

static void sum_of_squares(void* in, void* inout, int* length, MPI_Datatype* type) {
  EXPECT(*type == MPI_DOUBLE);
  for (int i = 0; i < *length; ++i) ((double*)inout)[i] += ((double*)in)[i];
}

static void collectives(void) {
  double values[2] = {rank + 1.0, 2.0}, sums[2];
  MPI_Op op;
  MPI_Op_create(sum_of_squares, 1, &op);
  MPI_Allreduce(values, sums, 2, MPI_DOUBLE, op, MPI_COMM_WORLD);
  EXPECT(sums[0] == size * (size + 1) / 2.0 && sums[1] == 2.0 * size);
  MPI_Op_free(&op);
  EXPECT(op == MPI_OP_NULL);
  MPI_Allreduce(MPI_IN_PLACE, values, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  EXPECT(values[0] == sums[0] && values[1] == sums[1]);
  struct {
    double value;
    int at;
  } mine = {-rank, rank}, least;
  MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
  EXPECT(least.at == size - 1 && least.value == -(size - 1.0));
}

static int copied, deleted;
static int copy_value(MPI_Comm comm, int keyval, void* state, void* in, void* out, int* flag) {
  EXPECT(comm == MPI_COMM_WORLD && keyval != MPI_KEYVAL_INVALID && state == &copied);
  ++copied;
  *(void**)out = (char*)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}
static int delete_value(MPI_Comm comm, int keyval, void* value, void* state) {
  (void)comm, (void)keyval, (void)value, (void)state;
  ++deleted;
  return MPI_SUCCESS;
}

static void attributes(void) {
  int own, named, none, flag;
  char* value = NULL;
  MPI_Comm copy;
  MPI_Comm_create_keyval(copy_value, delete_value, &own, &copied);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &named, NULL);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &none, NULL);
  char text[] = "text";
  MPI_Comm_set_attr(MPI_COMM_WORLD, own, text);
  MPI_Comm_set_attr(MPI_COMM_WORLD, named, text);
  MPI_Comm_set_attr(MPI_COMM_WORLD, none, text);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_get_attr(copy, own, &value, &flag);
  EXPECT(copied == 1 && flag && value == text + 1);
  MPI_Comm_get_attr(copy, named, &value, &flag);
  EXPECT(flag && value == text);
  MPI_Comm_get_attr(copy, none, &value, &flag);
  EXPECT(!flag);
  MPI_Comm_free(&copy);
  EXPECT(deleted == 1);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, own);
  EXPECT(deleted == 2);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, named);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, none);
  MPI_Comm_free_keyval(&own);
  EXPECT(own == MPI_KEYVAL_INVALID);
  MPI_Comm_free_keyval(&named);
  MPI_Comm_free_keyval(&none);
}

static int handled;
static void handle(MPI_Comm* comm, int* code, ...) {
  EXPECT(*comm == MPI_COMM_WORLD);
  handled = class_of(*code);
}

static void errors(void) {
  MPI_Errhandler handler;
  int one = 1, length = 0;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Errhandler_free(&handler);
  EXPECT(handler == MPI_ERRHANDLER_NULL);
  EXPECT(class_of(MPI_Send(&one, 1, MPI_INT, size, 0, MPI_COMM_WORLD)) == MPI_ERR_RANK);
  EXPECT(handled == MPI_ERR_RANK);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  EXPECT(class_of(MPI_Send(&one, -1, MPI_INT, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
  EXPECT(class_of(MPI_Send(&one, 1, MPI_INT, 0, -9, MPI_COMM_WORLD)) == MPI_ERR_TAG);
  EXPECT(class_of(MPI_Send(&one, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
  EXPECT(class_of(MPI_Send(&one, 1, MPI_INT, 0, 0, MPI_COMM_NULL)) == MPI_ERR_COMM);
  EXPECT(class_of(MPI_Comm_rank(MPI_COMM_WORLD, NULL)) == MPI_ERR_ARG);
  EXPECT(class_of(MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD)) ==
         MPI_ERR_OP);
  MPI_Datatype type;
  MPI_Type_contiguous(2, MPI_INT, &type);
  const MPI_Datatype stale = type;
  MPI_Type_free(&type);
  EXPECT(type == MPI_DATATYPE_NULL);
  int code = MPI_Send(&one, 1, stale, 0, 0, MPI_COMM_WORLD);
  EXPECT(class_of(code) == MPI_ERR_TYPE);
  MPI_Error_string(code, text, &length);
  EXPECT(length == (int)strlen(text) && strstr(text, "MPI_Send") && strstr(text, "datatype"));
  MPI_Win win = MPI_WIN_NULL;
  code = MPI_Win_create(&one, sizeof one, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  EXPECT(class_of(code) == MPI_ERR_UNSUPPORTED_OPERATION);
  MPI_Error_string(code, text, &length);
  EXPECT(strstr(text, "MPI_Win_create") != NULL);
}

static void types(void) {
  MPI_Datatype type, inner;
  int integers, addresses, types_, combiner, values[8], size_;
  MPI_Aint where[1], lower, extent;
  int sizes[2] = {4, 6}, parts[2] = {2, 3}, starts[2] = {1, 2};
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_FLOAT, &type);
  MPI_Type_get_envelope(type, &integers, &addresses, &types_, &combiner);
  EXPECT(integers == 8 && addresses == 0 && types_ == 1 && combiner == MPI_COMBINER_SUBARRAY);
  MPI_Type_get_contents(type, 8, 1, 1, values, where, &inner);
  EXPECT(values[0] == 2 && values[7] == MPI_ORDER_FORTRAN && inner == MPI_FLOAT);
  MPI_Type_size(type, &size_);
  MPI_Type_get_extent(type, &lower, &extent);
  EXPECT(size_ == 24 && lower == 0 && extent == 96);
  MPI_Type_free(&type);
  int gsizes[1] = {16}, distributions[1] = {MPI_DISTRIBUTE_BLOCK},
      arguments[1] = {MPI_DISTRIBUTE_DFLT_DARG}, processes[1] = {2};
  MPI_Type_create_darray(2, 1, 1, gsizes, distributions, arguments, processes, MPI_ORDER_C, MPI_INT,
                         &type);
  MPI_Type_get_contents(type, 8, 1, 1, values, where, &inner);
  EXPECT(values[4] == MPI_DISTRIBUTE_BLOCK && values[5] == MPI_DISTRIBUTE_DFLT_DARG);
  MPI_Type_size(type, &size_);
  EXPECT(size_ == 32);
  MPI_Type_free(&type);
  MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
  MPI_Type_size(type, &size_);
  EXPECT(size_ == 8);
}

static int query_code, free_code;
static int query(void* state, MPI_Status* status) {
  (void)state;
  MPI_Status_set_elements(status, MPI_INT, 3);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_ANY_SOURCE;
  status->MPI_TAG = MPI_ANY_TAG;
  return query_code;
}
static int free_state(void* state) {
  ++*(int*)state;
  return free_code;
}
static int cancel(void* state, int complete) {
  (void)state;
  return complete ? MPI_ERR_BUFFER : MPI_ERR_IO;
}

// What the functions of a generalised request return, in the program's codes, is what the calls
// return; with MPI_ERRORS_RETURN set.
static void generalised_requests(void) {
  const int codes[3][2] = {
      {MPI_SUCCESS, MPI_SUCCESS}, {MPI_ERR_IO, MPI_SUCCESS}, {MPI_SUCCESS, MPI_ERR_TRUNCATE}};
  for (int i = 0; i < 3; ++i) {
    int freed = 0, count = 0;
    MPI_Request request;
    MPI_Status status;
    query_code = codes[i][0];
    free_code = codes[i][1];
    MPI_Grequest_start(query, free_state, cancel, &freed, &request);
    EXPECT(class_of(MPI_Cancel(&request)) == MPI_ERR_IO);
    MPI_Grequest_complete(request);
    EXPECT(class_of(MPI_Cancel(&request)) == MPI_ERR_BUFFER);
    EXPECT(freed == 0);
    const int code = MPI_Wait(&request, &status);
    EXPECT(class_of(code) == (query_code != MPI_SUCCESS ? query_code : free_code));
    EXPECT(request == MPI_REQUEST_NULL && freed == 1);
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT(count == 3);
    MPI_Grequest_start(query, free_state, cancel, &freed, &request);
    MPI_Grequest_complete(request);
    EXPECT(class_of(MPI_Request_free(&request)) == free_code && freed == 2);
  }
}

// An empty status has an error, which is set.
static void empty_statuses(void) {
  MPI_Status statuses[2];
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int flag = 0, index = 0;
  for (int call = 0; call < 6; ++call) {
    memset(statuses, 77, sizeof statuses);
    if (call == 0) MPI_Wait(&requests[0], &statuses[0]);
    if (call == 1) MPI_Test(&requests[0], &flag, &statuses[0]);
    if (call == 2) MPI_Waitany(2, requests, &index, &statuses[0]);
    if (call == 3) MPI_Testany(2, requests, &index, &flag, &statuses[0]);
    if (call == 4) MPI_Waitall(2, requests, statuses);
    if (call == 5) MPI_Request_get_status(requests[0], &flag, &statuses[0]);
    EXPECT(statuses[0].MPI_SOURCE == MPI_ANY_SOURCE && statuses[0].MPI_TAG == MPI_ANY_TAG);
    EXPECT(statuses[0].MPI_ERROR == MPI_SUCCESS);
    EXPECT(call != 4 || statuses[1].MPI_ERROR == MPI_SUCCESS);
  }
}

// What MPI does not know of a status is the program's, and comes back unchanged.
static void own_statuses(void) {
  MPI_Status status;
  memset(&status, 0, sizeof status);
  status.MPI_SOURCE = 111, status.MPI_TAG = 222, status.MPI_ERROR = 333;
  MPI_Status_set_elements(&status, MPI_INT, 4);
  EXPECT(status.MPI_SOURCE == 111 && status.MPI_TAG == 222 && status.MPI_ERROR == 333);
#if MPI_VERSION >= 5
  int source = 0, tag = 0, error = 0;
  MPI_Status_get_source(&status, &source);
  MPI_Status_get_tag(&status, &tag);
  MPI_Status_get_error(&status, &error);
  EXPECT(source == 111 && tag == 222 && error == 333);
#endif
}

// Addresses that stand for something are the program's own, whatever the ABI has for them.
static void addresses(void) {
  MPI_Aint at = 0;
  MPI_Get_address(MPI_IN_PLACE, &at);
  EXPECT((void*)at == MPI_IN_PLACE);
#ifdef MPI_BUFFER_AUTOMATIC
  void* buffer = NULL;
  int bytes = -1;
  MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
  MPI_Buffer_detach(&buffer, &bytes);
  EXPECT(buffer == MPI_BUFFER_AUTOMATIC && bytes == 0);
#endif
}

static void splits(void) {
  MPI_Comm part;
  MPI_Info info;
  int members = 0;
#ifdef MPI_COMM_TYPE_HW_GUIDED
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &part);
  EXPECT(part != MPI_COMM_NULL);
  if (part != MPI_COMM_NULL) MPI_Comm_size(part, &members);
  EXPECT(members == size);
  MPI_Comm_disconnect(&part);
  EXPECT(part == MPI_COMM_NULL);
  MPI_Info_set(info, "mpi_hw_resource_type", "a part of no machine");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &part);
  EXPECT(part == MPI_COMM_NULL);
  MPI_Info_free(&info);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &part);
  EXPECT(part == MPI_COMM_NULL);
#endif
  EXPECT(class_of(MPI_Comm_disconnect(&part)) == MPI_ERR_COMM);
  part = MPI_COMM_WORLD;
  EXPECT(class_of(MPI_Comm_disconnect(&part)) == MPI_ERR_COMM && part == MPI_COMM_WORLD);
  // What was sent without a request arrives before the communicator is gone.
  MPI_Comm_dup(MPI_COMM_WORLD, &part);
  static int given[1 << 16], taken[1 << 16];
  MPI_Request request, sent;
  given[(1 << 16) - 1] = 7 + rank;
  const int next = (rank + 1) % size, last = (rank + size - 1) % size;
  MPI_Irecv(taken, 1 << 16, MPI_INT, last, 0, part, &request);
  MPI_Isend(given, 1 << 16, MPI_INT, next, 0, part, &sent);
  MPI_Request_free(&sent);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT(taken[(1 << 16) - 1] == 7 + last);
  MPI_Comm_disconnect(&part);
  EXPECT(part == MPI_COMM_NULL);
}

// Statuses and handles as Fortran has them; the standard's ABI leaves these to its libraries.
static void of_fortran(void) {
#if defined(MPICH_VERSION) || defined(OPEN_MPI)
  MPI_Fint there[sizeof(MPI_Status) / sizeof(MPI_Fint)];
  MPI_Status before, after;
  memset(&before, 0, sizeof before);
  MPI_Status_set_elements(&before, MPI_INT, 5);
  before.MPI_SOURCE = 3, before.MPI_TAG = 4, before.MPI_ERROR = MPI_ERR_TAG;
  EXPECT(MPI_Status_c2f(&before, there) == MPI_SUCCESS);
  EXPECT(MPI_Status_f2c(there, &after) == MPI_SUCCESS);
  EXPECT(memcmp(&before, &after, sizeof before) == 0);
  EXPECT(class_of(MPI_Status_c2f(MPI_STATUS_IGNORE, there)) == MPI_ERR_ARG);
  EXPECT(class_of(MPI_Status_f2c(NULL, &after)) == MPI_ERR_ARG);
  EXPECT(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
  EXPECT(MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL);
#else
  EXPECT(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL);
  EXPECT(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
#endif
}

int main(int argc, char** argv) {
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  EXPECT(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  names_of_numbers();
  messages();
  collectives();
  attributes();
  types();
  errors();
  generalised_requests();
  empty_statuses();
  own_statuses();
  addresses();
  splits();
  of_fortran();
  MPI_Finalize();
  if (wrong == 0) printf("fine %d of %d\n", rank, size);
  return wrong != 0;
}
