// Halos: both faces of one axis of a cube of doubles, by derived types and packed by hand. All
// ranks stand in a ring along that axis, so that every face crosses from one rank to another.
#include <stdio.h>
#include <string.h>

#include "measure.h"

typedef struct {
  Work work;
  int n, axis;
  int peers[2];           // below, above
  MPI_Datatype faces[4];  // of the low side: sent, received; of the high side: sent, received
} Halo;

// Copies a face of (n + 2)^3 doubles as a program has it: rows at once, or one by one.
static void copy_face(const Halo* halo, int plane, double* packed, int out) {
  const size_t n = (size_t)halo->n, m = n + 2;
  const size_t strides[3] = {m * m, m, 1};
  const size_t slow = strides[halo->axis == 0 ? 1 : 0], fast = strides[halo->axis == 2 ? 1 : 2];
  double* const face = (double*)near + (size_t)plane * strides[halo->axis] + slow + fast;
  for (size_t i = 0; i < n; ++i) {
    double* const row = face + i * slow;
    if (halo->axis != 2) {
      if (out) {
        memcpy(packed, row, n * sizeof(double));
      } else {
        memcpy(row, packed, n * sizeof(double));
      }
    } else if (out) {
      for (size_t k = 0; k < n; ++k) packed[k] = row[k * fast];
    } else {
      for (size_t k = 0; k < n; ++k) row[k * fast] = packed[k];
    }
    packed += n;
  }
}

static void by_types(Work* work, int reps) {
  Halo* halo = (Halo*)work;
  for (int i = 0; i < reps; ++i) {
    MPI_Request under_way[4];
    for (int side = 0; side < 2; ++side) {
      MPI_Irecv(near, 1, halo->faces[2 * side + 1], halo->peers[side], side, work->comm,
                &under_way[side]);
      MPI_Isend(near, 1, halo->faces[2 * (1 - side)], halo->peers[1 - side], side, work->comm,
                &under_way[2 + side]);
    }
    MPI_Waitall(4, under_way, MPI_STATUSES_IGNORE);
  }
}

static void by_hand(Work* work, int reps) {
  Halo* halo = (Halo*)work;
  const int n = halo->n, count = n * n;
  for (int i = 0; i < reps; ++i) {
    MPI_Request under_way[4];
    for (int side = 0; side < 2; ++side) {
      double* const packed = (double*)far + 2 * side * count;
      MPI_Irecv(packed, count, MPI_DOUBLE, halo->peers[side], side, work->comm, &under_way[side]);
      copy_face(halo, side == 0 ? n : 1, packed + count, 1);
      MPI_Isend(packed + count, count, MPI_DOUBLE, halo->peers[1 - side], side, work->comm,
                &under_way[2 + side]);
    }
    MPI_Waitall(4, under_way, MPI_STATUSES_IGNORE);
    for (int side = 0; side < 2; ++side) {
      copy_face(halo, side == 0 ? 0 : n + 1, (double*)far + 2 * side * count, 0);
    }
  }
}

static void make_faces(Halo* halo) {
  const int n = halo->n, planes[4] = {1, 0, n, n + 1};
  for (int i = 0; i < 4; ++i) {
    int whole[3], part[3], start[3];
    for (int k = 0; k < 3; ++k) {
      whole[k] = n + 2;
      part[k] = k == halo->axis ? 1 : n;
      start[k] = k == halo->axis ? planes[i] : 1;
    }
    MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, MPI_DOUBLE, &halo->faces[i]);
    MPI_Type_commit(&halo->faces[i]);
  }
}

static void measure_halo(int n, int axis) {
  char name[64];
  snprintf(name, sizeof name, "halo_%d_axis%d", n, axis);
  const size_t side = (size_t)n + 2, face = sizeof(double) * (size_t)n * (size_t)n;
  need(name, sizeof(double) * side * side * side, 4 * face);
  int dims[3] = {1, 1, 1};
  const int periods[3] = {1, 1, 1};
  dims[axis] = size;
  MPI_Comm ring;
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &ring);
  Halo types = {.work = {.run = by_types, .comm = ring}, .n = n, .axis = axis};
  MPI_Cart_shift(ring, axis, 1, &types.peers[0], &types.peers[1]);
  make_faces(&types);
  Halo hand = types;
  hand.work.run = by_hand;
  hand.work.way = "hand";
  Work* const works[] = {&types.work, &hand.work};
  measure(name, face, works, 2, 1);
  for (int i = 0; i < 4; ++i) MPI_Type_free(&types.faces[i]);
  MPI_Comm_free(&ring);
}

void measure_halos(void) {
  for (int n = 64; n <= 256; n *= 2) {
    if (!wanted(sizeof(double) * (size_t)n * (size_t)n)) continue;
    for (int axis = 0; axis < 3; ++axis) measure_halo(n, axis);
  }
}
