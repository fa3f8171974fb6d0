// Abi: what the implementation must know of the ABI that the program was built for. Each of the
// three libraries (bindings/mpi/abi) has one such table; all else is common to them.
//
// Scalars that have names in MPI (ranks, tags, error classes, ...) are translated by the entry
// points, which are generated; this table is for what the implementation meets in the program's
// memory: arrays, statuses, handles that callbacks are given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/core/object.h"

namespace holdfast::mpi {

// What numbers mean that an ABI may spell its own way. A value of the program that has no meaning
// becomes one that the core does not know; from_core() makes the program's of it again.
enum class Meaning : std::uint8_t {
  kPlain,
  kRank,
  kTag,
  kOrder,
  kDistribution,
  kDistributionArgument,
  kError,
  kCombiner,
  kKeyval,
  kComparison,
  kTopology,
  kSplit,
  kThread,
  kTypeClass,
};

// As the implementation has it; an ABI's status has the same in its own layout.
struct Status {
  int source = -1;
  int tag = -2;
  int error = 0;
  bool cancelled = false;
  std::int64_t bytes = 0;
};

// Limits on strings that a program's arrays have been given.
struct TextLimits {
  int object_name;
  int error_string;
  int processor_name;
  int library_version;
  int info_key;
  int info_value;
};

struct Abi {
  const char* name;  // abi, mpich, openmpi
  int version;       // of MPI, as the program's header has it
  int subversion;
  int abi_version;  // MPI_Abi_get_version; -1: this is not the standard's ABI
  int abi_subversion;
  TextLimits limits;

  // The handle in `slot`, which is of the ABI's type for the kind. Null: the null handle.
  // `valid` is false for what is no handle of that kind.
  Object* (*read_handle)(const void* slot, Kind kind, bool* valid);
  // Null: writes the null handle of the kind.
  void (*write_handle)(void* slot, Kind kind, Object* object);
  std::size_t (*handle_bytes)(Kind kind);
  int (*to_core)(Meaning meaning, int value);
  int (*from_core)(Meaning meaning, int value);
  // `array`: null, and is_ignored(), where the program wants none.
  bool (*ignores_status)(const void* statuses);
  Status (*read_status)(const void* statuses, std::size_t index);
  // Writes the fields that MPI wants set; `error` alone where with_error says so.
  void (*write_status)(void* statuses, std::size_t index, const Status& status, bool with_error);

  // Calls of functions that the program gave, with handles of its ABI.
  void (*call_op)(void (*function)(), bool wide, const void* in, void* inout, std::int64_t count,
                  Object* type);
  int (*call_copy_attribute)(void (*function)(), Object* object, int keyval, void* state,
                             void* value, void** copy, int* flag);
  int (*call_delete_attribute)(void (*function)(), Object* object, int keyval, void* value,
                               void* state);
  void (*call_errhandler)(void (*function)(), Object* object, int code);
  int (*call_query)(void (*function)(), void* state, Status* status);
  // Whether it is one of MPI's named functions (MPI_COMM_DUP_FN ...), which the program may pass.
  enum class NamedCopy : std::uint8_t { kNone, kNull, kDup };
  NamedCopy (*named_copy)(void (*function)());
  bool (*is_null_delete)(void (*function)());
};

}  // namespace holdfast::mpi
