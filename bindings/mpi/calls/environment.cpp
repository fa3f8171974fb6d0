// Init, finalize, and what can be asked of them.
#include "mpi/calls.h"
#include "mpi/core/process.h"

namespace holdfast::mpi::body {

int Init(Call& call, int* /*argc*/, char*** /*argv*/) {
  // A session has done it.
  if (process().sessions_only.exchange(false, std::memory_order_acq_rel)) return kSuccess;
  return process().begin(call, kThreadSingle);
}

int Init_thread(Call& call, int* /*argc*/, char*** /*argv*/, int required, int& provided) {
  if (required < kThreadSingle || required > kThreadMultiple) {
    return call.fail(kErrArg,
                     "required is no level of MPI_THREAD_SINGLE, _FUNNELED, _SERIALIZED "
                     "and _MULTIPLE");
  }
  // Every level is served as the highest one, which is what the program is told.
  provided = kThreadMultiple;
  if (process().sessions_only.exchange(false, std::memory_order_acq_rel)) return kSuccess;
  const int code = process().begin(call, kThreadMultiple);
  return code;
}

int Initialized(Call&, bool& flag) {
  const Process::Phase phase = process().phase();
  flag = (phase == Process::Phase::kRunning || phase == Process::Phase::kEnded) &&
         !process().sessions_only.load(std::memory_order_acquire);
  return kSuccess;
}

int Finalize(Call& call) { return process().end(call); }

int Finalized(Call&, bool& flag) {
  flag = process().phase() == Process::Phase::kEnded &&
         !process().sessions_only.load(std::memory_order_acquire);
  return kSuccess;
}

int Abort(Call&, Comm* comm, int errorcode) { process().abort_job(comm, errorcode); }

int Query_thread(Call& call, int& provided) {
  if (!process().is_running()) return call.fail(kErrOther, "MPI is not running");
  provided = process().thread_level();
  return kSuccess;
}

int Is_thread_main(Call& call, bool& flag) {
  if (!process().is_running()) return call.fail(kErrOther, "MPI is not running");
  flag = process().is_main_thread();
  return kSuccess;
}

}  // namespace holdfast::mpi::body
