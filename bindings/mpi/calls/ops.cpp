// Reduction operations: MPI-4.1, 6.9.2, 6.9.5 and 6.9.7.
#include <string>
#include <vector>

#include "comm/reduce/kernels.h"
#include "mpi/calls.h"
#include "mpi/calls/checks.h"
#include "mpi/calls/made.h"
#include "mpi/core/process.h"
#include "mpi/traffic/device_data.h"
#include "mpi/types/op.h"

namespace holdfast::mpi {
namespace {

// As apply(), of buffers of which a device owns one or both: on the host, on packed elements.
Failure apply_on_host(Op& op, const void* in, void* inout, std::int64_t count, Datatype& type) {
  std::vector<std::byte> left(type.bytes_of(count));
  std::vector<std::byte> right(left.size());
  Failure failure = pack_elements(type, count, in, left.data());
  if (failure.code == kSuccess) failure = pack_elements(type, count, inout, right.data());
  if (failure.code != kSuccess) return failure;
  if (const auto native = native_reduction(op, type)) {
    comm::reduce_kernel(native->dtype, native->op)(right.data(), left.data(), right.data(),
                                                   right.size() / dtype_bytes(native->dtype));
  } else {
    user_reduction(op, type)->apply(left.data(), right.data(), static_cast<std::uint64_t>(count));
  }
  return unpack_elements(type, count, right.data(), inout);
}

}  // namespace

namespace body {

int Op_create(Call& call, Function user_fn, bool commute, Op*& op) {
  if (user_fn == nullptr) {
    return call.fail(kErrArg, "user_fn is a null pointer, accepted are functions");
  }
  return give_made(call, process().registry.make<Op>(call.abi(), user_fn, commute, call.is_wide()),
                   "operations", op);
}

int Op_free(Call& call, Op*& op) {
  if (op->predefined) {
    return call.fail(kErrOp, std::string("op is ") + name_of(*op) +
                                 ", accepted are operations that the program made");
  }
  process().registry.take_back(op);
  op = nullptr;
  return kSuccess;
}

int Op_commutative(Call&, Op* op, bool& commute) {
  commute = op->commutative;
  return kSuccess;
}

int Reduce_local(Call& call, const void* inbuf, void* inoutbuf, std::int64_t count,
                 Datatype* datatype, Op* op) {
  Checks checks(call);
  checks.count("count", count).type("datatype", datatype);
  if (checks.failed()) return checks.code();
  if (std::string problem = reduction_problem(*op, *datatype); !problem.empty()) {
    return call.fail(kErrOp, std::move(problem));
  }
  if (!datatype->fits(count)) {
    return call.fail(kErrCount, "count is " + std::to_string(count) +
                                    ", whose bytes leave 63 bits; accepted are smaller ones");
  }
  if (inbuf == kInPlace || inoutbuf == kInPlace) {
    return call.fail(kErrBuffer, "a buffer is MPI_IN_PLACE, accepted are two buffers");
  }
  checks.buffer("inbuf", inbuf, count, datatype).buffer("inoutbuf", inoutbuf, count, datatype);
  if (checks.failed()) return checks.code();
  if (device_of(*datatype, count, inbuf) || device_of(*datatype, count, inoutbuf)) {
    return call.take(apply_on_host(*op, inbuf, inoutbuf, count, *datatype));
  }
  if (count != 0) apply(*op, inbuf, inoutbuf, count, *datatype);
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi
