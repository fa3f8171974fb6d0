// MPI_Pack and MPI_Unpack, which are one rank's own work. Beside Holdfast's: loops by hand, which
// know a shape's numbers when they are compiled.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum {
  kRecord = 32,       // bytes from one record to the next
  kRecordBytes = 15,  // of which so many count: a double, an int, three characters
  kFirstBytes = 12,   // the double and the int, which lie side by side
  kRestAt = 16
};

static int* places;  // of a gather's floats

typedef enum { kVector, kRecords, kGather } Shape;

typedef struct {
  Work work;
  Shape shape;
  int block;  // of a vector, in bytes
  int unpacks;
} Packing;

static void by_mpi(Work* work, int reps) {
  const int unpacks = ((Packing*)work)->unpacks;
  for (int i = 0; i < reps; ++i) {
    int at = 0;
    if (unpacks) {
      MPI_Unpack(far, (int)work->bytes, &at, near, 1, work->type, MPI_COMM_SELF);
    } else {
      MPI_Pack(near, 1, work->type, far, (int)work->bytes, &at, MPI_COMM_SELF);
    }
  }
}

#define INLINE static inline __attribute__((always_inline))

INLINE void move(char* spread, char* packed, size_t bytes, int unpacks) {
  if (unpacks) {
    memcpy(spread, packed, bytes);
  } else {
    memcpy(packed, spread, bytes);
  }
}

INLINE void copy_blocks(size_t count, size_t block, int unpacks) {
  for (size_t i = 0; i < count; ++i) move(near + 2 * block * i, far + block * i, block, unpacks);
}

INLINE void copy_vector(size_t bytes, int block, int unpacks) {
  switch (block) {
    case 4: copy_blocks(bytes / 4, 4, unpacks); break;
    case 8: copy_blocks(bytes / 8, 8, unpacks); break;
    case 16: copy_blocks(bytes / 16, 16, unpacks); break;
    case 32: copy_blocks(bytes / 32, 32, unpacks); break;
    default: copy_blocks(bytes / 64, 64, unpacks);
  }
}

INLINE void copy_records(size_t bytes, int unpacks) {
  for (size_t i = 0; i < bytes / kRecordBytes; ++i) {
    char* const record = near + kRecord * i;
    char* const packed = far + kRecordBytes * i;
    move(record, packed, kFirstBytes, unpacks);
    move(record + kRestAt, packed + kFirstBytes, kRecordBytes - kFirstBytes, unpacks);
  }
}

INLINE void copy_floats(size_t bytes, int unpacks) {
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    move(near + sizeof(float) * (size_t)places[i], far + sizeof(float) * i, sizeof(float), unpacks);
  }
}

static void by_hand(Work* work, int reps) {
  const Packing* const packing = (const Packing*)work;
  const int unpacks = packing->unpacks;
  for (int i = 0; i < reps; ++i) {
    switch (packing->shape) {
      case kVector:
        if (unpacks) {
          copy_vector(work->bytes, packing->block, 1);
        } else {
          copy_vector(work->bytes, packing->block, 0);
        }
        break;
      case kRecords:
        if (unpacks) {
          copy_records(work->bytes, 1);
        } else {
          copy_records(work->bytes, 0);
        }
        break;
      default:
        if (unpacks) {
          copy_floats(work->bytes, 1);
        } else {
          copy_floats(work->bytes, 0);
        }
    }
    // So that the compiler keeps every copy.
    __asm__ volatile("" : : "r"(far), "r"(near) : "memory");
  }
}

// The same bytes, contiguous.
static void copy(Work* work, int reps) {
  for (int i = 0; i < reps; ++i) {
    memcpy(far, near, work->bytes);
    __asm__ volatile("" : : "r"(far) : "memory");
  }
}

static MPI_Datatype vector_of(size_t payload, int block) {
  MPI_Datatype type;
  const int floats = block / (int)sizeof(float);
  MPI_Type_vector((int)(payload / (size_t)block), floats, 2 * floats, MPI_FLOAT, &type);
  return type;
}

static MPI_Datatype records_of(size_t payload) {
  int counts[] = {1, 1, 3};
  MPI_Aint starts[] = {0, 8, kRestAt};
  MPI_Datatype parts[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR};
  MPI_Datatype record, spaced, type;
  MPI_Type_create_struct(3, counts, starts, parts, &record);
  MPI_Type_create_resized(record, 0, kRecord, &spaced);
  MPI_Type_contiguous((int)(payload / kRecordBytes), spaced, &type);
  MPI_Type_free(&record);
  MPI_Type_free(&spaced);
  return type;
}

// Single floats, 1 to 3 apart.
static MPI_Datatype gather_of(size_t payload) {
  const int count = (int)(payload / sizeof(float));
  free(places);
  places = malloc((size_t)count * sizeof *places);
  if (places == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  unsigned seed = 1;
  for (int i = 0, at = 0; i < count; ++i) {
    places[i] = at;
    seed = seed * 1664525u + 1013904223u;
    at += 1 + (int)(seed >> 30) % 3;
  }
  MPI_Datatype type;
  MPI_Type_create_indexed_block(count, 1, places, MPI_FLOAT, &type);
  return type;
}

static void measure_shape(const char* name, size_t payload, Shape shape, int block) {
  MPI_Datatype type = shape == kVector    ? vector_of(payload, block)
                      : shape == kRecords ? records_of(payload)
                                          : gather_of(payload);
  MPI_Type_commit(&type);
  int bytes;
  MPI_Aint low, extent;
  MPI_Type_size(type, &bytes);
  MPI_Type_get_extent(type, &low, &extent);
  need(name, (size_t)extent, payload);
  for (int unpacks = 0; unpacks < 2; ++unpacks) {
    char full[64];
    snprintf(full, sizeof full, "%s_%s", unpacks ? "unpack" : "pack", name);
    Packing mpi = {{.run = by_mpi, .bytes = (size_t)bytes, .type = type}, shape, block, unpacks};
    Packing hand = {{.run = by_hand, .way = "hand", .bytes = (size_t)bytes}, shape, block, unpacks};
    Work* const works[] = {&mpi.work, &hand.work};
#ifdef WITH_HOLDFAST
    measure(full, payload, works, 2, 1);
#else
    measure(full, payload, works, 1, 1);  // the loops are the same for all MPIs
#endif
  }
  MPI_Type_free(&type);
}

void measure_packing(void) {
  static const size_t kSizes[] = {65536, 262144, 33554432};
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
    if (!wanted(kSizes[i])) continue;
    need("memcpy", kSizes[i], kSizes[i]);
    Work work = {.run = copy, .bytes = kSizes[i]};
    measure_one("memcpy", kSizes[i], &work, 1);
    for (int block = 4; block <= 64; block *= 2) {
      char name[32];
      snprintf(name, sizeof name, "vector_%d", block);
      measure_shape(name, kSizes[i], kVector, block);
    }
    measure_shape("records", kSizes[i], kRecords, 0);
    measure_shape("gather", kSizes[i], kGather, 0);
  }
  free(places);
  places = NULL;
}
