// Session: a part of a program that uses MPI on its own, with its handler of errors and its hints.
// All sessions of a process share its world.
#pragma once

#include <memory>
#include <vector>

#include "mpi/core/errhandler.h"
#include "mpi/core/info.h"
#include "mpi/core/object.h"

namespace holdfast::mpi {

struct BufferPool;

struct Session : Object {
  static constexpr Kind kKind = Kind::kSession;
  Session() : Object(kKind) {}
  ~Session();

  Errhandler* errhandler = nullptr;  // a use of its own
  std::vector<InfoEntry> hints;
  std::shared_ptr<BufferPool> buffer;  // null: none. Owners: this, and calls under way
};

}  // namespace holdfast::mpi
