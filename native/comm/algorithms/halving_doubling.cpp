// Recursive halving and doubling: all-reduce, reduce-scatter and all-gather in log2(n) rounds, each
// halving (doubling) the bytes.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
// MPICH", IJHPCA 2005, sections 4.1, 4.5.1 and 4.6 (Rabenseifner's all-reduce).
//
// p = the largest power of two <= n ranks take part; in each of the first n - p pairs of ranks the
// odd rank is first folded into the even one before it, and gets the result from it at the end. Per
// rank, S bytes of payload:
//   all_reduce      2 log2 p rounds, 2(p-1)/p S sent, (p-1)/p S reduced; when n is not a power of
//                   two another 2 S at a folded pair and S/2 reduced
//   reduce_scatter  log2 p rounds, (p-1)/p S sent and reduced; folding adds S
//   all_gather      log2 p rounds, (n-1)/n S sent; folding adds S
// A round is one message per chunk, all of them in flight together. Copies beyond the wire's own:
// none. Partial sums live in scratch; every chunk has one owner, whose sum all ranks get.
#include <cmath>
#include <utility>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/algorithms/fold.h"

namespace holdfast::comm {
namespace {

// The slots in which this rank holds each chunk: its input at first, partial sums later.
std::vector<Slot> inputs(int count) {
  std::vector<Slot> held;
  held.reserve(static_cast<std::size_t>(count));
  for (int c = 0; c < count; ++c) held.push_back(Builder::input(c));
  return held;
}

// Adds what arrives from `peer`; the operand of the lower ranks comes first.
void add(Builder& b, int peer, Slot& held, int chunk, bool arriving_first, bool final) {
  const Slot arriving = b.scratch(Builder::input(chunk));
  b.recv(peer, arriving);
  const auto [lhs, rhs] = arriving_first ? std::pair{arriving, held} : std::pair{held, arriving};
  if (final) {
    held = Builder::output(chunk);
    b.reduce_final(held, lhs, rhs);
  } else {
    held = b.scratch(Builder::input(chunk));
    b.reduce(held, lhs, rhs);
  }
}

// A pair shares the work: the even rank adds the lower half of the chunks, and the odd rank the
// upper half, which it sends to the even rank.
void fold_all_reduce(Builder& b, const Fold& fold, std::vector<Slot>& held) {
  const bool even = fold.has_folded();
  const int peer = even ? fold.rank + 1 : fold.rank - 1;
  const int half = fold.parts / 2;
  const auto mine = [&](int c) { return (c < half) == even; };
  for (int c = 0; c < fold.parts; ++c) {
    if (!mine(c)) b.send(peer, Builder::input(c));
  }
  for (int c = 0; c < fold.parts; ++c) {
    if (!mine(c)) continue;
    add(b, peer, held[static_cast<std::size_t>(c)], c, !even, false);
    if (!even) b.send(peer, held[static_cast<std::size_t>(c)]);
  }
  for (int c = half; even && c < fold.parts; ++c) {
    held[static_cast<std::size_t>(c)] = b.scratch(Builder::input(c));
    b.recv(peer, held[static_cast<std::size_t>(c)]);
  }
}

// Halves the range [low, high) of participants that this one still sums for, until it is alone.
// `first(part)`: the first chunk of a participant; `is_own(chunk)`: whether the chunk's sum ends
// here, complete.
template <class First, class IsOwn>
void halve(Builder& b, const Fold& fold, std::vector<Slot>& held, First first, IsOwn is_own) {
  int low = 0;
  int high = fold.parts;
  for (int distance = fold.parts / 2; distance > 0; distance /= 2) {
    const bool keeps_low = (fold.part & distance) == 0;
    const int peer = fold.rank_of(fold.part ^ distance);
    const int middle = low + distance;
    const int gone = keeps_low ? middle : low;
    for (int c = first(gone); c < first(gone + distance); ++c) {
      b.send(peer, held[static_cast<std::size_t>(c)]);
    }
    (keeps_low ? high : low) = middle;
    for (int c = first(low); c < first(high); ++c) {
      add(b, peer, held[static_cast<std::size_t>(c)], c, !keeps_low, distance == 1 && is_own(c));
    }
  }
}

// Doubles what this rank has of the output.
template <class First>
void double_up(Builder& b, const Fold& fold, First first) {
  for (int distance = 1; distance < fold.parts; distance *= 2) {
    const int peer = fold.rank_of(fold.part ^ distance);
    const int own = fold.part & ~(distance - 1);
    const int other = own ^ distance;
    for (int c = first(own); c < first(own + distance); ++c) b.send(peer, Builder::output(c));
    for (int c = first(other); c < first(other + distance); ++c) {
      b.recv(peer, Builder::output(c));
    }
  }
}

}  // namespace

Schedule build_halving_doubling_all_reduce(const BuildSpec& spec) {
  const Fold fold(spec);
  Builder b(spec, static_cast<std::uint32_t>(fold.parts));
  const auto first = [](int part) { return part; };
  std::vector<Slot> held = inputs(fold.parts);
  if (spec.size == 1) b.copy(Builder::output(0), Builder::input(0));
  if (fold.part < 0 || fold.has_folded()) fold_all_reduce(b, fold, held);
  if (fold.part < 0) {
    for (int c = 0; c < fold.parts; ++c) b.recv(fold.rank - 1, Builder::output(c));
    return std::move(b).finish();
  }
  halve(b, fold, held, first, [](int) { return true; });
  double_up(b, fold, first);
  for (int c = 0; fold.has_folded() && c < fold.parts; ++c) {
    b.send(fold.rank + 1, Builder::output(c));
  }
  return std::move(b).finish();
}

Schedule build_halving_doubling_reduce_scatter(const BuildSpec& spec) {
  const Fold fold(spec);
  Builder b(spec, static_cast<std::uint32_t>(spec.size));
  std::vector<Slot> held = inputs(spec.size);
  if (spec.size == 1) b.copy(Builder::output(0), Builder::input(0));
  if (fold.part < 0) {
    // A folded rank sends all but its own chunk, to which it adds its input last.
    for (int c = 0; c < spec.size; ++c) {
      if (c != fold.rank) b.send(fold.rank - 1, Builder::input(c));
    }
    Slot own = Builder::input(fold.rank);
    add(b, fold.rank - 1, own, fold.rank, true, true);
    return std::move(b).finish();
  }
  for (int c = 0; fold.has_folded() && c < spec.size; ++c) {
    if (c == fold.rank + 1) continue;
    add(b, fold.rank + 1, held[static_cast<std::size_t>(c)], c, false, false);
  }
  halve(
      b, fold, held, [&](int part) { return fold.first_chunk(part); },
      [&](int c) { return c == fold.rank; });
  if (fold.has_folded()) b.send(fold.rank + 1, held[static_cast<std::size_t>(fold.rank) + 1]);
  return std::move(b).finish();
}

Schedule build_halving_doubling_all_gather(const BuildSpec& spec) {
  const Fold fold(spec);
  Builder b(spec, static_cast<std::uint32_t>(spec.size));
  const int own = spec.rank.value;
  b.copy(Builder::output(own), Builder::input(own));
  if (fold.part < 0) {
    b.send(own - 1, Builder::input(own));
    for (int c = 0; c < spec.size; ++c) {
      if (c != own) b.recv(own - 1, Builder::output(c));
    }
    return std::move(b).finish();
  }
  if (fold.has_folded()) b.recv(own + 1, Builder::output(own + 1));
  double_up(b, fold, [&](int part) { return fold.first_chunk(part); });
  for (int c = 0; fold.has_folded() && c < spec.size; ++c) {
    if (c != own + 1) b.send(own + 1, Builder::output(c));
  }
  return std::move(b).finish();
}

topology::CostTerms cost_halving_doubling_all_reduce(int size, std::uint64_t bytes) {
  const auto s = static_cast<double>(bytes);
  const double p = std::exp2(Fold::rounds(size));
  const double extra = Fold::folds(size) ? 1 : 0;
  return {2 * Fold::rounds(size) + 3 * extra, (2 * (p - 1) / p + 2 * extra) * s,
          ((p - 1) / p + extra / 2) * s};
}

topology::CostTerms cost_halving_doubling_reduce_scatter(int size, std::uint64_t bytes) {
  const double p = std::exp2(Fold::rounds(size));
  const double extra = Fold::folds(size) ? 1 : 0;
  const double moved = ((p - 1) / p + extra) * static_cast<double>(bytes);
  return {Fold::rounds(size) + 2 * extra, moved, moved};
}

topology::CostTerms cost_halving_doubling_all_gather(int size, std::uint64_t bytes) {
  const double extra = Fold::folds(size) ? 1 : 0;
  return {Fold::rounds(size) + 2 * extra,
          ((size - 1.0) / size + extra) * static_cast<double>(bytes), 0};
}

}  // namespace holdfast::comm
