// What the ABIs have in common, in terms of what each one's abi.h has of its own: its handles
// (object_in, handle_out, is_null), its status (StatusLayout), and the names of constants.
//
// The three are never in one library: each abi.h has the same names in the same namespace.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

#include "mpi/core/abi.h"
#include "mpi/core/object.h"

namespace holdfast::mpi {

struct Comm;
struct Datatype;
struct Errhandler;
struct Group;
struct Info;
struct Message;
struct Op;
struct Request;
struct Session;

namespace entry {

// Of classes that entry points know by name alone.
template <class T>
inline constexpr Kind kKindOf = Kind::kFreed;
template <>
inline constexpr Kind kKindOf<Comm> = Kind::kComm;
template <>
inline constexpr Kind kKindOf<Datatype> = Kind::kType;
template <>
inline constexpr Kind kKindOf<Group> = Kind::kGroup;
template <>
inline constexpr Kind kKindOf<Op> = Kind::kOp;
template <>
inline constexpr Kind kKindOf<Request> = Kind::kRequest;
template <>
inline constexpr Kind kKindOf<Info> = Kind::kInfo;
template <>
inline constexpr Kind kKindOf<Errhandler> = Kind::kErrhandler;
template <>
inline constexpr Kind kKindOf<Message> = Kind::kMessage;
template <>
inline constexpr Kind kKindOf<Session> = Kind::kSession;

// A value that means nothing in the program's ABI, as one that means nothing in the core: negative,
// and far from all that do. Twice gives the value back.
inline int unknown(int value) {
  if (value >= 0) return INT_MIN + value;
  return value < INT_MIN / 4 * 3 ? value - INT_MIN : value ^ (1 << 30);
}

// Null for the null handle and for what is none of the kind.
template <class T>
T* as(Object* object) {
  // Object is the first base of all these classes, and none has virtual functions.
  return reinterpret_cast<T*>(object);
}
template <class T>
Object* object_of(T* object) {
  return reinterpret_cast<Object*>(object);
}

}  // namespace entry
}  // namespace holdfast::mpi
