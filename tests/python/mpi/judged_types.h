// Random derived types with the places of their bytes, which a plain walk of their constructors
// finds.
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>

// The same numbers on all ranks.
static uint64_t random_state = 42;
static long upto(long most) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (long)((random_state >> 33) % (uint64_t)(most + 1));
}

typedef struct {
  MPI_Datatype type;
  long* places;  // of its bytes, in the order of the typemap
  long n;
  long lb, ub;
} Judged;

static void put_at(Judged* judged, const Judged* part, long displacement) {
  judged->places = realloc(judged->places, (size_t)(judged->n + part->n + 1) * sizeof(long));
  for (long i = 0; i < part->n; ++i) {
    judged->places[judged->n++] = part->places[i] + displacement;
  }
  if (part->lb + displacement < judged->lb) judged->lb = part->lb + displacement;
  if (part->ub + displacement > judged->ub) judged->ub = part->ub + displacement;
}

static Judged basic(void) {
  Judged made = {MPI_DATATYPE_NULL, NULL, 0, 0, 1L << upto(3)};
  MPI_Type_contiguous((int)made.ub, MPI_BYTE, &made.type);
  made.places = malloc((size_t)made.ub * sizeof(long));
  for (; made.n < made.ub; ++made.n) made.places[made.n] = made.n;
  return made;
}

// Blocks of `part` that do not lie over each other; some lists of them rise, others fall.
static Judged listed(const Judged* part, int irregular) {
  enum { kMost = 9 };
  Judged made = {MPI_DATATYPE_NULL, NULL, 0, 1L << 60, -(1L << 60)};
  int lengths[kMost];
  MPI_Aint places[kMost];
  MPI_Datatype types[kMost];
  const int n = (int)upto(kMost - 1) + 1;
  const int falls = (int)upto(1);
  const int even = !irregular;
  const long gap = 4 * upto(3);
  const int length = (int)upto(2) + 1;
  long at = part->lb < 0 ? -part->lb : 0;
  for (int i = 0; i < n; ++i) {
    lengths[i] = even ? length : (int)upto(2) + 1;
    places[falls ? n - 1 - i : i] = at;
    types[i] = part->type;
    at += 3 * (part->ub - part->lb) + (even ? gap : 4 * upto(5));
  }
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < lengths[i]; ++k) {
      put_at(&made, part, places[i] + k * (part->ub - part->lb));
    }
  }
  if (even && n > 1) {
    MPI_Datatype vector;
    const int one = 1;
    MPI_Type_create_hvector(n, length, places[1] - places[0], part->type, &vector);
    MPI_Type_create_hindexed(1, &one, places, vector, &made.type);
    MPI_Type_free(&vector);
  } else if (upto(1)) {
    MPI_Type_create_hindexed(n, lengths, places, part->type, &made.type);
  } else {
    MPI_Type_create_struct(n, lengths, places, types, &made.type);
  }
  return made;
}

static void drop_type(Judged* judged) {
  MPI_Type_free(&judged->type);
  free(judged->places);
}

static Judged random_type(void) {
  Judged made = basic();
  const long levels = upto(3);
  for (long i = 0; i < levels; ++i) {
    Judged outer;
    if (upto(3) == 0) {
      outer = (Judged){MPI_DATATYPE_NULL, NULL, 0, made.lb, made.ub};
      put_at(&outer, &made, 0);
      outer.lb -= 4 * upto(2);
      outer.ub += 4 * upto(2);
      MPI_Type_create_resized(made.type, outer.lb, outer.ub - outer.lb, &outer.type);
    } else {
      outer = listed(&made, (int)upto(1));
    }
    drop_type(&made);
    made = outer;
  }
  MPI_Type_commit(&made.type);
  return made;
}

// How far `count` elements reach, and where displacement zero is in a buffer that holds them.
static size_t reach_of(const Judged* type, int count, long* zero) {
  long low = type->lb < 0 ? type->lb : 0, high = 0;
  for (long i = 0; i < type->n; ++i) {
    const long end = type->places[i] + 1 + (count - 1) * (type->ub - type->lb);
    if (end > high) high = end;
  }
  *zero = -low;
  return (size_t)(high - low);
}

static long place_of(const Judged* type, long zero, long packed) {
  return kGuard + zero + type->places[packed % type->n] + packed / type->n * (type->ub - type->lb);
}
