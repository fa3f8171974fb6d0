// Fold: lets any number of ranks take part in an algorithm for a power of two.
#pragma once

#include "comm/schedule/builder.h"

namespace holdfast::comm {

// p = the largest power of two <= n ranks take part, and are numbered anew as participants. In each
// of the first n - p pairs of ranks the odd rank is folded into the even one before it.
struct Fold {
  int size;
  int rank;
  int parts = 1;  // p
  int pairs = 0;  // n - p
  int part = -1;  // this rank's participant number; -1: folded into the rank before it

  explicit Fold(const BuildSpec& spec) : size(spec.size), rank(spec.rank.value) {
    while (parts * 2 <= size) parts *= 2;
    pairs = size - parts;
    if (rank >= 2 * pairs) {
      part = rank - pairs;
    } else if (rank % 2 == 0) {
      part = rank / 2;
    }
  }
  int rank_of(int other) const { return other < pairs ? 2 * other : other + pairs; }
  bool has_folded() const { return part >= 0 && part < pairs; }
  // The first chunk of participant `other` where every rank has one chunk: a pair's two chunks go
  // together.
  int first_chunk(int other) const { return rank_of(other); }

  static double rounds(int size) {  // log2 p
    int count = 0;
    for (int p = 1; p * 2 <= size; p *= 2) ++count;
    return count;
  }
  static bool folds(int size) { return (size & (size - 1)) != 0; }
};

}  // namespace holdfast::comm
