// Collectives' arguments, checked and turned into what core/collective.h does with them: a function
// for each, whatever the form of the call.
#pragma once

#include "mpi/comms/comm.h"
#include "mpi/core/call.h"
#include "mpi/traffic/collective.h"
#include "mpi/types/datatype.h"
#include "mpi/types/op.h"

namespace holdfast::mpi {

// Arguments as MPI has them: one block, or one for each rank.
struct Side {
  const void* at;
  std::int64_t count;
  Datatype* type;
  bool in_place() const { return at == kInPlace; }
  Part part() const { return {const_cast<void*>(at), count, type}; }
  // The block of `rank`, where every rank has as many elements.
  Part part(int rank) const { return at_offset(count * rank * extent()); }
  std::int64_t extent() const { return type->layout.extent(); }
  Part at_offset(std::int64_t bytes) const {
    return {static_cast<std::byte*>(const_cast<void*>(at)) + bytes, count, type};
  }
};

struct VSide {
  const void* at;
  const IntArray& counts;
  const IntArray& displacements;
  Datatype* type;
  bool in_place() const { return at == kInPlace; }
  Part part(int rank) const {
    const auto i = static_cast<std::size_t>(rank);
    auto* base = static_cast<std::byte*>(const_cast<void*>(at));
    return {base + displacements[i] * type->layout.extent(), counts[i], type};
  }
};

struct WSide {
  const void* at;
  const IntArray& counts;
  const IntArray& displacements;
  const Handles<Datatype>& types;
  bool in_place() const { return at == kInPlace; }
};

// What a collective's own function makes; `code`: what is wrong with the arguments.
struct Prepared {
  int code = kSuccess;
  CollectiveCall asked;
};

// What is reduced: `input` is where it lies, MPI_IN_PLACE put right.
struct Reduced {
  const void* send;
  void* receive;
  std::int64_t count;
  Datatype* type;
  Op* op;
  bool in_place() const { return send == kInPlace; }
  Part input() const { return {in_place() ? receive : const_cast<void*>(send), count, type}; }
  Part output() const { return {receive, count, type}; }
};

Prepared barrier(Call& call, Comm* comm);
Prepared bcast(Call& call, const Side& side, int root, Comm* comm);
// Blocks: a Side, or a VSide.
template <class Blocks>
Prepared gather(Call& call, const Side& send, const Blocks& receive, bool equal, int root,
                Comm* comm);
template <class Blocks>
Prepared scatter(Call& call, const Blocks& send, const Side& receive, bool equal, int root,
                 Comm* comm);
template <class Blocks>
Prepared all_gather(Call& call, const Side& send, const Blocks& receive, bool equal, Comm* comm);
template <class Out, class In>
Prepared all_to_all(Call& call, const Out& send, const In& receive, bool equal, Comm* comm);
Prepared all_to_all_w(Call& call, const WSide& send, const WSide& receive, Comm* comm);
Prepared all_reduce(Call& call, const Reduced& data, Comm* comm);
Prepared reduce(Call& call, const Reduced& data, int root, Comm* comm);
// `counts`: null: data.count for every rank.
Prepared reduce_scatter(Call& call, const Reduced& data, const IntArray* counts, Comm* comm);
Prepared scan(Call& call, comm::Collective what, const Reduced& data, Comm* comm);

}  // namespace holdfast::mpi
