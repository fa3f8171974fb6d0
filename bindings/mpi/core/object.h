// Object: what a handle of a program stands for: a communicator, a type, a request and their kin.
// It is counted, since a freed handle's object lives on while something uses it, and it has a
// number, by which ABIs whose handles are integers name it.
//
// Memory of a freed object is reused for objects of the same kind only and never given back, so
// that a freed handle is seen to be one instead of being followed somewhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace holdfast::mpi {

enum class Kind : std::uint32_t {
  kFreed = 0x0f4eed00,
  kComm = 0x0c0a0001,
  kType,
  kGroup,
  kOp,
  kRequest,
  kInfo,
  kErrhandler,
  kMessage,
  kSession,
};
inline constexpr int kKinds = 9;

// A predefined object has a number below this; those that programs make have higher ones.
inline constexpr std::int32_t kFirstMade = 1024;

struct Object {
  // Itself. Handles of Open MPI's ABI are addresses of memory whose first word says where the
  // object is: for objects that programs make, this word.
  // Null: the program has freed its handles, and something still uses the object.
  Object* self = this;
  Kind kind = Kind::kFreed;
  std::int32_t number = -1;  // of its kind; set by the registry
  // acq_rel where dropped: who drops the last use frees what others wrote.
  std::atomic<std::int32_t> uses{1};
  // Of the uses, those that are handles of the program: at 0 no handle leads here any more.
  std::atomic<std::int32_t> handles{1};
  bool predefined = false;

  explicit Object(Kind of) : kind(of) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
};

}  // namespace holdfast::mpi
