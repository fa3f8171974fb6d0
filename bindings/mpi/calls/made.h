// What the bodies of several chapters do with objects and numbers that they give to the program.
#pragma once

#include <climits>
#include <string>

#include "mpi/core/call.h"
#include "mpi/core/process.h"

namespace holdfast::mpi {

// `made` is null where there are too many of its kind, which `what` names.
template <class T>
int give_made(Call& call, T* made, const char* what, T*& out) {
  if (made == nullptr) {
    return call.fail(kErrNoMem, "there are " + std::to_string(kMostObjects) + " " + what +
                                    " already, and a program can have no more");
  }
  out = made;
  return kSuccess;
}

// An object that MPI predefines; null: there is none of this number.
template <class T>
T* by_number(int number) {
  return static_cast<T*>(process().registry.find(T::kKind, number));
}

// How a refusal names an element of an argument.
template <class Index>
std::string element(const char* array, Index i) {
  return std::string(array) + "[" + std::to_string(i) + "]";
}

// What a program is told that has 32 bits for a number of 64.
inline std::int64_t narrowed(const Call& call, std::uint64_t value) {
  const bool fits = value <= static_cast<std::uint64_t>(call.is_wide() ? INT64_MAX : INT_MAX);
  return fits ? static_cast<std::int64_t>(value) : kUndefined;
}

}  // namespace holdfast::mpi
