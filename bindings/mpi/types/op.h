// Op: a reduction operation: one of MPI's, or a function of the program; what it is defined on, and
// how the core's collectives and MPI_Reduce_local do it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "comm/reduce/reducer.h"
#include "mpi/core/call.h"
#include "mpi/core/object.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {

struct Op : Object {
  static constexpr Kind kKind = Kind::kOp;
  enum class What : std::uint8_t {
    kMax,
    kMin,
    kSum,
    kProduct,
    kLand,
    kBand,
    kLor,
    kBor,
    kLxor,
    kBxor,
    kMaxLoc,
    kMinLoc,
    kReplace,
    kNoOp,
    kUser,
  };

  explicit Op(What which) : Object(kKind), what(which) {}
  // `wide`: the function counts in 64 bits.
  Op(const Abi& of, Function called, bool commutes, bool wide)
      : Object(kKind),
        what(What::kUser),
        commutative(commutes),
        abi(&of),
        function(called),
        counts_wide(wide) {}

  const What what;
  const bool commutative = true;
  const Abi* const abi = nullptr;  // these are of kUser
  const Function function = nullptr;
  const bool counts_wide = false;
};

// "MPI_SUM"; "a function of the program" where it has none of MPI's names.
const char* name_of(const Op& op);

// What keeps the op from being used with the type (MPI-4.1, table 6.2), naming both; empty:
// nothing.
std::string reduction_problem(const Op& op, const Datatype& type);

// The core's own operation and element, where it has them, for elements without gaps.
struct NativeReduction {
  DType dtype;
  ReduceOp op;
};
std::optional<NativeReduction> native_reduction(const Op& op, const Datatype& type);

// Any other allowed reduction, on packed elements. It holds uses of the op and the type.
// ElementList without bytes count as of one byte, of which there are none.
std::shared_ptr<const comm::UserOp> user_reduction(Op& op, Datatype& type);

// inout[i] = in[i] op inout[i] for `count` elements of the program's memory. They may not overlap.
void apply(const Op& op, const void* in, void* inout, std::int64_t count, Datatype& type);

}  // namespace holdfast::mpi
