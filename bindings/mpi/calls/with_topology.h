// What calls about topologies share: communicators that have one, and arrays of their numbers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mpi/calls/checks.h"
#include "mpi/comms/make_comm.h"
#include "mpi/comms/topology.h"
#include "mpi/core/process.h"

namespace holdfast::mpi {

inline int failed(Call& call, Failure failure) {
  return call.fail(failure.code, std::move(failure.text));
}

std::vector<int> list_of(const IntArray& array, int count);

template <class T>
void write(const OutInts& array, const std::vector<T>& list, int room) {
  for (std::size_t i = 0; i < list.size() && i < static_cast<std::size_t>(room); ++i) {
    array.set(i, list[i]);
  }
}

// The first `count` ranks of `from` with the topology; the others get no communicator. Placement is
// as it is: ranks are not reordered.
int make_with_topology(Call& call, Comm& from, int count, const Topology* topology, Comm*& made);

template <class Shape>
const Shape* shape_of(const Comm& comm) {
  return comm.topology ? std::get_if<Shape>(&comm.topology->shape) : nullptr;
}

int no_topology(Call& call, const char* kind);
int check_ranks(Call& call, const Comm& comm, const char* name, const std::vector<int>& ranks);

}  // namespace holdfast::mpi
