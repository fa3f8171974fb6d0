// The ways out of calls that cannot begin. Entry points come here only when something is wrong.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "mpi/core/call.h"

namespace holdfast::mpi {

// An argument that a call may be refused for: a handle, or, of kind kFreed, an address.
struct Asked {
  Kind kind;
  const char* name;
  bool is_refused;
  bool is_null;
  std::uint64_t bits;  // the handle's
};

// These return what the entry point returns. Refuses for what the call has said already, or else
// for the first of the arguments that is refused.
int refuse(Call& call, std::initializer_list<Asked> arguments, Comm* comm,
           Session* session = nullptr);
int refuse_unsupported(const Abi& abi, const char* name);

}  // namespace holdfast::mpi
