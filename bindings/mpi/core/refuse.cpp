#include "mpi/core/refuse.h"

#include "base/check.h"

namespace holdfast::mpi {

int refuse(Call& call, std::initializer_list<Asked> arguments, Comm* comm, Session* session) {
  for (const Asked& asked : arguments) {
    if (call.failed()) break;
    if (!asked.is_refused) continue;
    if (asked.kind == Kind::kFreed) {
      (void)call.fail(kErrArg, std::string(asked.name) + " is null; accepted: an address");
    } else {
      call.refuse_handle(asked.kind, asked.name, asked.is_null, &asked.bits);
    }
  }
  CHECK(call.failed());
  return call.end(call.code(), comm, session);
}

int refuse_unsupported(const Abi& abi, const char* name) {
  Call call(abi, name);
  return call.end(call.fail(kErrUnsupportedOperation,
                            "Holdfast has no such function; holdfast info lists those it lacks"),
                  nullptr);
}

}  // namespace holdfast::mpi
