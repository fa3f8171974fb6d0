#include "mpi/core/errhandler.h"

#include <unistd.h>

#include <string>

#include "mpi/comms/comm.h"
#include "mpi/core/predefined.h"
#include "mpi/core/process.h"
#include "mpi/core/session.h"

namespace holdfast::mpi {

namespace {

std::string where(const Object* object) {
  if (object == nullptr) return {};
  if (object->kind == Kind::kSession) return ", a session";
  const std::string& name = static_cast<const Comm*>(object)->name;
  return name.empty() ? ", a communicator without a name" : ", communicator " + name;
}

std::string who() {
  const Comm* world = process().world;
  return world == nullptr ? "a process outside MPI" : "rank " + std::to_string(world->rank);
}

// One line to stderr, in one piece, so that those of several ranks do not mix.
void tell(const Object* object, int code, std::string_view text, const char* handler) {
  std::string line = "holdfast: " + who() + ": " + std::string(text) + " [" +
                     std::string(error_name(process().errors.class_of(code))) + where(object) +
                     "]; " + handler + " ends the job\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void handle(const Abi& abi, const Errhandler& handler, Object* object, int code,
            std::string_view text) {
  switch (handler.action) {
    case Errhandler::Action::kReturn: return;
    case Errhandler::Action::kUser: abi.call_errhandler(handler.function, object, code); return;
    case Errhandler::Action::kAbort:
      tell(object, code, text, "MPI_ERRORS_ABORT");
      process().abort_job(object != nullptr && object->kind == Kind::kComm
                              ? static_cast<Comm*>(object)
                              : process().self,
                          code);
    case Errhandler::Action::kFatal:
      tell(object, code, text, "MPI_ERRORS_ARE_FATAL");
      process().abort_job(process().world, code);
  }
}

int raise(Call& call, int code, Comm* comm, Session* session) {
  // By the class that the program sees: an ABI may have another one for it.
  const Abi& abi = call.abi();
  process().errors.remember(abi.to_core(Meaning::kError, abi.from_core(Meaning::kError, code)),
                            call.text());
  Object* object = comm;
  Errhandler* handler = comm != nullptr ? comm->errhandler : nullptr;
  if (comm == nullptr && session != nullptr) {
    object = session;
    handler = session->errhandler;
  } else if (comm == nullptr) {
    // Since MPI-4 errors that belong to no communicator go to that of the process alone.
    comm = call.abi().version < 4 ? process().world : process().self;
    object = comm;
    handler = comm != nullptr ? comm->errhandler : nullptr;
  }
  if (handler == nullptr) {
    // Before init and after finalize nothing can have set another handler.
    handle(call.abi(), Errhandler(Errhandler::Action::kFatal), object, code, call.text());
    return code;
  }
  // The program's function may free the object that holds the handler.
  Registry::use(handler);
  handle(call.abi(), *handler, object, code, call.text());
  process().registry.drop(handler);
  return code;
}

void predefine_errhandlers(Registry& registry) {
  registry.predefine<Errhandler>(kErrorsAreFatal, Errhandler::Action::kFatal);
  registry.predefine<Errhandler>(kErrorsAbort, Errhandler::Action::kAbort);
  registry.predefine<Errhandler>(kErrorsReturn, Errhandler::Action::kReturn);
}

}  // namespace holdfast::mpi
