// Error handlers, classes and codes: MPI-4.1, 9.3 to 9.5.
#include <string>

#include "mpi/calls.h"
#include "mpi/calls/made.h"
#include "mpi/comms/comm.h"
#include "mpi/core/errhandler.h"
#include "mpi/core/process.h"
#include "mpi/core/session.h"

namespace holdfast::mpi {

namespace {

int create(Call& call, Kind of, Function function, const char* argument, Errhandler*& errhandler) {
  if (function == nullptr) {
    return call.fail(kErrArg, std::string(argument) + " is a null pointer, accepted are functions");
  }
  return give_made(call, process().registry.make<Errhandler>(of, function), "error handlers",
                   errhandler);
}

// Puts `handler` where an object has its own.
int set(Call& call, Kind of, Errhandler* handler, Errhandler*& place) {
  if (handler->action == Errhandler::Action::kUser && handler->of != of) {
    const char* other = handler->of == Kind::kSession ? "sessions" : "communicators";
    return call.fail(kErrErrhandler, std::string("errhandler is one of ") + other +
                                         ", accepted are those of " +
                                         (of == Kind::kSession ? "sessions" : "communicators") +
                                         " and those that MPI predefines");
  }
  Errhandler* before = place;
  place = Registry::use(handler);
  process().registry.drop(before);
  return kSuccess;
}

int get(Errhandler* handler, Errhandler*& out) {
  out = process().registry.hand_out(handler);
  return kSuccess;
}

// Headers of other MPIs name classes that MPI has not. Nothing here returns one, but a program may
// ask what it is: a class of its own.
constexpr int kMostForeign = 127;

bool is_foreign(const Call& call, int code) {
  const int given = call.abi().from_core(Meaning::kError, code);
  return !process().errors.knows(code) && given > 0 && given <= kMostForeign;
}

int refuse_code(Call& call, int code) {
  return call.fail(kErrArg, "errorcode is " +
                                std::to_string(call.abi().from_core(Meaning::kError, code)) +
                                ", accepted are MPI's codes and those that the program added");
}

int hand_over(Call& call, const char* name, Errhandler* handler, Object* object, int errorcode) {
  if (!process().errors.knows(errorcode)) return refuse_code(call, errorcode);
  Registry::use(handler);  // its function may free the object
  handle(call.abi(), *handler, object, errorcode,
         std::string(name) + ": errorcode is " + std::to_string(errorcode) + ": " +
             process().errors.text(errorcode));
  process().registry.drop(handler);
  return kSuccess;
}

using Change = bool (ErrorCodes::*)(int, std::string*);

int remove(Call& call, Change change, int code) {
  std::string problem;
  if ((process().errors.*change)(code, &problem)) return kSuccess;
  return call.fail(kErrArg, std::move(problem));
}

}  // namespace

namespace body {

int Comm_create_errhandler(Call& call, Function comm_errhandler_fn, Errhandler*& errhandler) {
  return create(call, Kind::kComm, comm_errhandler_fn, "comm_errhandler_fn", errhandler);
}

int Comm_set_errhandler(Call& call, Comm* comm, Errhandler* errhandler) {
  return set(call, Kind::kComm, errhandler, comm->errhandler);
}

int Comm_get_errhandler(Call&, Comm* comm, Errhandler*& errhandler) {
  return get(comm->errhandler, errhandler);
}

int Comm_call_errhandler(Call& call, Comm* comm, int errorcode) {
  return hand_over(call, "MPI_Comm_call_errhandler", comm->errhandler, comm, errorcode);
}

int Session_create_errhandler(Call& call, Function session_errhandler_fn, Errhandler*& errhandler) {
  return create(call, Kind::kSession, session_errhandler_fn, "session_errhandler_fn", errhandler);
}

int Session_set_errhandler(Call& call, Session* session, Errhandler* errhandler) {
  return set(call, Kind::kSession, errhandler, session->errhandler);
}

int Session_get_errhandler(Call&, Session* session, Errhandler*& errhandler) {
  return get(session->errhandler, errhandler);
}

int Session_call_errhandler(Call& call, Session* session, int errorcode) {
  return hand_over(call, "MPI_Session_call_errhandler", session->errhandler, session, errorcode);
}

int Errhandler_free(Call&, Errhandler*& errhandler) {
  process().registry.take_back(errhandler);
  errhandler = nullptr;
  return kSuccess;
}

int Error_class(Call& call, int errorcode, int& errorclass) {
  if (is_foreign(call, errorcode)) {
    errorclass = errorcode;
    return kSuccess;
  }
  if (!process().errors.knows(errorcode)) return refuse_code(call, errorcode);
  errorclass = process().errors.class_of(errorcode);
  return kSuccess;
}

int Error_string(Call& call, int errorcode, const TextOut& string) {
  if (is_foreign(call, errorcode)) {
    string.set("an error class of another MPI, which no function here returns");
    return kSuccess;
  }
  if (!process().errors.knows(errorcode)) return refuse_code(call, errorcode);
  string.set(process().errors.text(errorcode));
  return kSuccess;
}

int Add_error_class(Call& call, int& errorclass) {
  std::string problem;
  if (process().errors.add_class(&errorclass, &problem)) return kSuccess;
  return call.fail(kErrOther, std::move(problem));
}

int Add_error_code(Call& call, int errorclass, int& errorcode) {
  std::string problem;
  if (process().errors.add_code(errorclass, &errorcode, &problem)) return kSuccess;
  return call.fail(kErrArg, std::move(problem));
}

int Add_error_string(Call& call, int errorcode, std::string_view string) {
  const auto most = static_cast<std::size_t>(call.abi().limits.error_string) - 1;
  if (string.data() == nullptr) return call.fail(kErrArg, "string is a null pointer");
  if (string.size() > most) {
    return call.fail(kErrArg, "string has " + std::to_string(string.size()) +
                                  " characters, accepted are up to " + std::to_string(most));
  }
  std::string problem;
  if (process().errors.set_text(errorcode, string, &problem)) return kSuccess;
  return call.fail(kErrArg, std::move(problem));
}

int Remove_error_class(Call& call, int errorclass) {
  return remove(call, &ErrorCodes::remove_class, errorclass);
}

int Remove_error_code(Call& call, int errorcode) {
  return remove(call, &ErrorCodes::remove_code, errorcode);
}

int Remove_error_string(Call& call, int errorcode) {
  return remove(call, &ErrorCodes::remove_text, errorcode);
}

}  // namespace body
}  // namespace holdfast::mpi
