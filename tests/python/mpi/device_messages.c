// Messages and packing of device memory: between two ranks, of random types, each byte judged by a
// plain walk. Prints "fine RANK of SIZE". The argument `lost`: rank 1 dies in the midst of one.
#include <signal.h>
#include <unistd.h>

#include "device_memory.h"
#include "judged_types.h"

enum { kTypes = 48, kModes = 8, kTag = 5 };

static char attached[1 << 20];

// A wait's error goes to the handler of MPI_COMM_SELF.
static void set_handler(MPI_Errhandler handler) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
}

static void send(int mode, const void* at, int count, MPI_Datatype type) {
  MPI_Request request = MPI_REQUEST_NULL;
  switch (mode) {
    case 0: MPI_Send(at, count, type, 1, kTag, MPI_COMM_WORLD); return;
    case 1: MPI_Ssend(at, count, type, 1, kTag, MPI_COMM_WORLD); return;
    case 2: MPI_Isend(at, count, type, 1, kTag, MPI_COMM_WORLD, &request); break;
    case 3: MPI_Bsend(at, count, type, 1, kTag, MPI_COMM_WORLD); return;
    case 4:
      MPI_Send_init(at, count, type, 1, kTag, MPI_COMM_WORLD, &request);
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Request_free(&request);
      return;
    case 5:
      MPI_Sendrecv(at, count, type, 1, kTag, NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      return;
    case 6: MPI_Rsend(at, count, type, 1, kTag, MPI_COMM_WORLD); return;
    default: MPI_Issend(at, count, type, 1, kTag, MPI_COMM_WORLD, &request); break;
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void receive(int mode, void* at, int count, MPI_Datatype type, long bytes) {
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Message message;
  int flag = 0, got = 0;
  switch (mode) {
    case 0: MPI_Recv(at, count, type, 0, kTag, MPI_COMM_WORLD, &status); break;
    case 1:
      MPI_Irecv(at, count, type, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
      while (!flag) MPI_Test(&request, &flag, &status);
      break;
    case 2:
      MPI_Mprobe(0, kTag, MPI_COMM_WORLD, &message, &status);
      MPI_Get_count(&status, MPI_BYTE, &got);
      CHECK(got == bytes);
      MPI_Mrecv(at, count, type, &message, &status);
      break;
    case 3:
      MPI_Recv_init(at, count, type, 0, kTag, MPI_COMM_WORLD, &request);
      MPI_Start(&request);
      MPI_Wait(&request, &status);
      MPI_Request_free(&request);
      break;
    case 4:
      MPI_Probe(0, kTag, MPI_COMM_WORLD, &status);
      MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, at, count, type, 0, kTag, MPI_COMM_WORLD,
                   &status);
      break;
    default:
      MPI_Irecv(at, count, type, 0, kTag, MPI_COMM_WORLD, &request);
      MPI_Waitall(1, &request, &status);
      break;
  }
  MPI_Get_count(&status, MPI_BYTE, &got);
  CHECK(got == bytes);
}

// Rank 0 sends elements of `from`, rank 1 receives them as elements of `to`, or as plain bytes.
static void exchange(const Judged* from, int count, int on_device, int into_device, int mode,
                     int as_bytes) {
  long zero;
  const size_t reach = reach_of(from, count, &zero);
  const long bytes = from->n * count;
  unsigned char* sent = pattern(reach, 1);
  if (rank == 0) {
    const Buffer buffer = buffer_of(on_device, reach);
    put(&buffer, sent);
    send(mode, first(&buffer) + zero, count, from->type);
    is_exactly(&buffer, sent, __LINE__);
    drop(&buffer);
  } else {
    const size_t room = as_bytes ? (size_t)bytes : reach;
    const Buffer buffer = buffer_of(into_device, room);
    unsigned char* want = pattern(room, 99);
    put(&buffer, want);
    for (long i = 0; i < bytes; ++i) {
      want[as_bytes ? kGuard + i : place_of(from, zero, i)] = sent[place_of(from, zero, i)];
    }
    receive(mode % 6, first(&buffer) + (as_bytes ? 0 : zero), as_bytes ? (int)bytes : count,
            as_bytes ? MPI_BYTE : from->type, bytes);
    is_exactly(&buffer, want, __LINE__);
    drop(&buffer);
    free(want);
  }
  free(sent);
}

static void random_types_arrive(void) {
  MPI_Buffer_attach(attached, sizeof attached);
  for (int i = 0; i < kTypes; ++i) {
    Judged type = random_type();
    const int count = (int)upto(3);
    const int where = (int)upto(2);  // both, or one of them
    exchange(&type, count, where != 1, where != 2, i % kModes, (int)upto(2) == 0);
    drop_type(&type);
  }
  char* none;
  int bytes;
  MPI_Buffer_detach(&none, &bytes);
}

// Messages of several pieces: contiguous, a vector, and a list of blocks of uneven lengths.
static void large_ones_arrive(void) {
  enum { kBlocks = 30000 };
  Judged run = {MPI_DATATYPE_NULL, NULL, 0, 0, 2100001};
  MPI_Type_contiguous(2100001, MPI_BYTE, &run.type);
  run.places = malloc(2100001 * sizeof(long));
  for (; run.n < 2100001; ++run.n) run.places[run.n] = run.n;
  Judged vector = {MPI_DATATYPE_NULL, malloc(kBlocks * 48 * sizeof(long)), 0, 0, 0};
  Judged list = {MPI_DATATYPE_NULL, malloc(kBlocks * 64 * sizeof(long)), 0, 0, 0};
  int* lengths = malloc(kBlocks * sizeof(int));
  int* places = malloc(kBlocks * sizeof(int));
  for (int i = 0; i < kBlocks; ++i) {
    lengths[i] = 16 + (i * 7) % 48;
    places[i] = i * 80;
    for (int k = 0; k < 48; ++k) vector.places[vector.n++] = i * 80 + k;
    for (int k = 0; k < lengths[i]; ++k) list.places[list.n++] = i * 80 + k;
  }
  vector.ub = (kBlocks - 1) * 80 + 48;
  list.ub = (kBlocks - 1) * 80 + lengths[kBlocks - 1];
  MPI_Type_vector(kBlocks, 48, 80, MPI_BYTE, &vector.type);
  MPI_Type_indexed(kBlocks, lengths, places, MPI_BYTE, &list.type);
  Judged* all[] = {&run, &vector, &list};
  for (int i = 0; i < 3; ++i) {
    MPI_Type_commit(&all[i]->type);
    for (int mode = 0; mode < 3; ++mode) exchange(all[i], 1, mode != 1, mode != 2, mode, mode == 2);
    drop_type(all[i]);
  }
  free(lengths);
  free(places);
}

// A message that is larger than its room, one that is smaller, and those of a rank to itself.
static void rooms_of_other_sizes(void) {
  enum { kSent = 1000, kRoom = 600 };
  MPI_Datatype pairs;
  MPI_Type_vector(kRoom / 2, 2, 3, MPI_BYTE, &pairs);
  MPI_Type_commit(&pairs);
  const Buffer sent = buffer_of(1, kSent);
  const Buffer room = buffer_of(1, kRoom * 3 / 2);
  unsigned char* data = pattern(kSent, 3);
  unsigned char* want = pattern(room.bytes, 4);
  put(&sent, data);
  set_handler(MPI_ERRORS_RETURN);
  for (int bytes = 301; bytes <= kSent; bytes += kSent - 301) {
    put(&room, want);
    MPI_Status status;
    MPI_Request request;
    MPI_Irecv(first(&room), 1, pairs, rank, 1, MPI_COMM_WORLD, &request);
    CHECK(MPI_Send(first(&sent), bytes, MPI_BYTE, rank, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
    const int code = MPI_Wait(&request, &status);
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    CHECK(class == (bytes > kRoom ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
    for (int i = 0; i < bytes && i < kRoom; ++i)
      want[kGuard + i / 2 * 3 + i % 2] = data[kGuard + i];
    is_exactly(&room, want, __LINE__);
  }
  set_handler(MPI_ERRORS_ARE_FATAL);
  free(data);
  free(want);
  drop(&sent);
  drop(&room);
  MPI_Type_free(&pairs);
}

static void replaced_and_partitioned(void) {
  enum { kBytes = 70000 };
  const Buffer buffer = buffer_of(1, kBytes);
  fill(&buffer, (unsigned)rank);
  MPI_Sendrecv_replace(first(&buffer), kBytes, MPI_BYTE, 1 - rank, 1, 1 - rank, 1, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
  unsigned char* want = pattern(kBytes, (unsigned)rank);
  unsigned char* theirs = pattern(kBytes, (unsigned)(1 - rank));
  memcpy(want + kGuard, theirs + kGuard, kBytes);
  is_exactly(&buffer, want, __LINE__);
  MPI_Request request;
  if (rank == 0) {
    fill(&buffer, 7);
    MPI_Psend_init(first(&buffer), 2, kBytes / 2, MPI_BYTE, 1, 9, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &request);
    MPI_Start(&request);
    MPI_Pready_range(0, 1, request);
  } else {
    MPI_Precv_init(first(&buffer), 2, kBytes / 2, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &request);
    MPI_Start(&request);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  if (rank == 1) {
    free(theirs);
    theirs = pattern(kBytes, 7);
    memcpy(want + kGuard, theirs + kGuard, kBytes);
    is_exactly(&buffer, want, __LINE__);
  }
  free(want);
  free(theirs);
  drop(&buffer);
}

// Either side of a packing may be the device's.
static void packs_on_either_side(void) {
  for (int i = 0; i < kTypes; ++i) {
    Judged type = random_type();
    const int count = (int)upto(2) + 1;
    const int where = i % 3 + 1;
    long zero;
    const size_t reach = reach_of(&type, count, &zero);
    const int bytes = (int)type.n * count;
    const Buffer elements = buffer_of(where & 1, reach);
    const Buffer packed = buffer_of(where >> 1, (size_t)bytes + 3);
    unsigned char* data = pattern(reach, 1);
    unsigned char* want = pattern(packed.bytes, 2);
    put(&elements, data);
    put(&packed, want);
    int position = 3;
    MPI_Pack(first(&elements) + zero, count, type.type, first(&packed), bytes + 3, &position,
             MPI_COMM_SELF);
    CHECK(position == bytes + 3);
    for (int k = 0; k < bytes; ++k) want[kGuard + 3 + k] = data[place_of(&type, zero, k)];
    is_exactly(&packed, want, __LINE__);
    fill(&elements, 50);
    unsigned char* back = pattern(reach, 50);
    for (int k = 0; k < bytes; ++k) back[place_of(&type, zero, k)] = want[kGuard + 3 + k];
    position = 3;
    MPI_Unpack(first(&packed), bytes + 3, &position, first(&elements) + zero, count, type.type,
               MPI_COMM_SELF);
    is_exactly(&elements, back, __LINE__);
    free(data);
    free(want);
    free(back);
    drop(&elements);
    drop(&packed);
    drop_type(&type);
  }
}

static void external_form(void) {
  const Buffer elements = buffer_of(1, 8 * sizeof(int));
  const Buffer packed = buffer_of(1, 8 * 4);
  unsigned char* data = pattern(elements.bytes, 1);
  unsigned char* want = pattern(packed.bytes, 2);
  put(&elements, data);
  put(&packed, want);
  MPI_Aint position = 0;
  MPI_Pack_external("external32", first(&elements), 8, MPI_INT, first(&packed), 32, &position);
  int number = 1;
  const int little = *(char*)&number;
  for (int i = 0; i < 32; ++i)
    want[kGuard + i] = data[kGuard + (little ? i / 4 * 4 + 3 - i % 4 : i)];
  is_exactly(&packed, want, __LINE__);
  fill(&elements, 9);
  position = 0;
  MPI_Unpack_external("external32", first(&packed), 32, &position, first(&elements), 8, MPI_INT);
  unsigned char* back = pattern(elements.bytes, 9);
  memcpy(back + kGuard, data + kGuard, 32);
  is_exactly(&elements, back, __LINE__);
  free(data);
  free(want);
  free(back);
  drop(&elements);
  drop(&packed);
}

// A call whose elements reach beyond the device's memory is refused, and says so.
static void refused(int code, int line) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  check(code != MPI_SUCCESS, "a call went beyond its memory", line);
  MPI_Error_string(code, text, &length);
  check(strstr(text, "memory of the host, or of nobody") != NULL, text, line);
}

static void beyond_its_memory(void) {
  enum { kBytes = 1000, kMore = kBytes + 2 * kGuard + 1 };
  const Buffer buffer = buffer_of(1, kBytes);
  char host[kMore];
  int position = 0;
  set_handler(MPI_ERRORS_RETURN);
  refused(MPI_Send(buffer.all, kMore, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD), __LINE__);
  refused(MPI_Recv(buffer.all, kMore, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          __LINE__);
  refused(MPI_Pack(buffer.all, kMore, MPI_BYTE, host, kMore, &position, MPI_COMM_WORLD), __LINE__);
  refused(MPI_Allreduce(buffer.all, host, kMore, MPI_BYTE, MPI_BOR, MPI_COMM_SELF), __LINE__);
  set_handler(MPI_ERRORS_ARE_FATAL);
  drop(&buffer);
}

// Rank 1 dies while it gives, and has promised, a message of many pieces.
static void a_peer_is_lost(void) {
  enum { kBytes = 64 << 20 };
  const Buffer buffer = buffer_of(1, kBytes);
  set_handler(MPI_ERRORS_RETURN);
  MPI_Request requests[2];
  if (rank == 1) {
    MPI_Isend(first(&buffer), kBytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    kill(getpid(), SIGKILL);
  }
  MPI_Irecv(first(&buffer), kBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(first(&buffer), kBytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
  // The receive may have come whole; nobody has taken what was sent.
  const int received = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  CHECK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE) != MPI_SUCCESS);
  CHECK(MPI_Recv(first(&buffer), kBytes, MPI_BYTE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE) !=
        MPI_SUCCESS);
  (void)received;
  printf("told of the loss\n");
  fflush(stdout);
  _exit(0);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  if (argc > 1 && strcmp(argv[1], "lost") == 0) a_peer_is_lost();
  random_types_arrive();
  large_ones_arrive();
  rooms_of_other_sizes();
  replaced_and_partitioned();
  packs_on_either_side();
  external_form();
  beyond_its_memory();
  printf("fine %d of %d\n", rank, size);
  MPI_Finalize();
  return 0;
}
