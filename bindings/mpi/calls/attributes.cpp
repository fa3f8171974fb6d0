// Attributes and their keys: MPI-4.1, 7.7, and the deprecated names of chapter 15. Those of types
// are in datatype_objects.cpp.
#include <string>

#include "mpi/core/attributes.h"

#include "mpi/calls.h"
#include "mpi/comms/comm.h"
#include "mpi/core/process.h"

namespace holdfast::mpi {

namespace {

int create_keyval(Call& call, Kind of, Function copy, Function erase, void* state, int& keyval) {
  keyval = process().keyvals.create(of, copy, erase, state);
  if (keyval != kKeyvalInvalid) return kSuccess;
  return call.fail(kErrKeyval, "there have been " +
                                   std::to_string(Keyvals::kMostKeys - Keyvals::kFirstMade) +
                                   " keys, and a program can have no more");
}

int free_keyval(Call& call, Kind of, int& keyval) {
  const SharedKey key = process().keyvals.find(keyval);
  if (key == nullptr || key->of != of) {
    const std::string value =
        keyval == kKeyvalInvalid ? "MPI_KEYVAL_INVALID" : std::to_string(keyval);
    return call.fail(kErrKeyval, "keyval is " + value + ", accepted are keys of " +
                                     (of == Kind::kType ? "datatypes" : "communicators") +
                                     " that the program created and has not freed");
  }
  process().keyvals.free(keyval);
  keyval = kKeyvalInvalid;
  return kSuccess;
}

}  // namespace

namespace body {

int Comm_create_keyval(Call& call, Function comm_copy_attr_fn, Function comm_delete_attr_fn,
                       int& comm_keyval, void* extra_state) {
  return create_keyval(call, Kind::kComm, comm_copy_attr_fn, comm_delete_attr_fn, extra_state,
                       comm_keyval);
}

int Comm_free_keyval(Call& call, int& comm_keyval) {
  return free_keyval(call, Kind::kComm, comm_keyval);
}

int Comm_set_attr(Call& call, Comm* comm, int comm_keyval, void* attribute_val) {
  return set_attribute(call, *comm, comm->attributes, comm_keyval, attribute_val);
}

int Comm_get_attr(Call& call, Comm* comm, int comm_keyval, void** attribute_val, bool& flag) {
  return get_attribute(call, *comm, comm->attributes, comm_keyval, attribute_val, &flag);
}

int Comm_delete_attr(Call& call, Comm* comm, int comm_keyval) {
  return delete_attribute(call, *comm, comm->attributes, comm_keyval);
}

int Keyval_create(Call& call, Function copy_fn, Function delete_fn, int& keyval,
                  void* extra_state) {
  return create_keyval(call, Kind::kComm, copy_fn, delete_fn, extra_state, keyval);
}

int Keyval_free(Call& call, int& keyval) { return free_keyval(call, Kind::kComm, keyval); }

int Attr_put(Call& call, Comm* comm, int keyval, void* attribute_val) {
  return set_attribute(call, *comm, comm->attributes, keyval, attribute_val);
}

int Attr_get(Call& call, Comm* comm, int keyval, void** attribute_val, bool& flag) {
  return get_attribute(call, *comm, comm->attributes, keyval, attribute_val, &flag);
}

int Attr_delete(Call& call, Comm* comm, int keyval) {
  return delete_attribute(call, *comm, comm->attributes, keyval);
}

int Type_create_keyval(Call& call, Function type_copy_attr_fn, Function type_delete_attr_fn,
                       int& type_keyval, void* extra_state) {
  return create_keyval(call, Kind::kType, type_copy_attr_fn, type_delete_attr_fn, extra_state,
                       type_keyval);
}

int Type_free_keyval(Call& call, int& type_keyval) {
  return free_keyval(call, Kind::kType, type_keyval);
}

}  // namespace body
}  // namespace holdfast::mpi
