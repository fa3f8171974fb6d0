// Errhandler: what happens when a call fails: the job ends, the call returns a code, or a function
// of the program is called.
#pragma once

#include "mpi/core/call.h"
#include "mpi/core/object.h"

namespace holdfast::mpi {

struct Errhandler : Object {
  static constexpr Kind kKind = Kind::kErrhandler;
  enum class Action : std::uint8_t { kFatal, kReturn, kAbort, kUser };

  explicit Errhandler(Action what) : Object(kKind), action(what) {}
  // `handled`: kComm or kSession, what the function is for.
  Errhandler(Kind handled, Function called)
      : Object(kKind), action(Action::kUser), of(handled), function(called) {}

  const Action action;
  const Kind of = Kind::kComm;
  const Function function = nullptr;
};

// raise() of call.h keeps the text of a failure for MPI_Error_string, and takes the handler of
// MPI_COMM_WORLD in place of MPI_COMM_SELF's where the program's ABI is older than MPI-4.

// Hands `code` to a handler; `text` is for people, should the job end.
void handle(const Abi& abi, const Errhandler& handler, Object* object, int code,
            std::string_view text);

}  // namespace holdfast::mpi
