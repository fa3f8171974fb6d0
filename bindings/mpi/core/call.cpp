#include "mpi/core/call.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace holdfast::mpi {
namespace {

struct KindText {
  int code;
  const char* null_name;
  const char* what;
};

KindText text_of(Kind kind) {
  switch (kind) {
    case Kind::kComm: return {kErrComm, "MPI_COMM_NULL", "a communicator"};
    case Kind::kType: return {kErrType, "MPI_DATATYPE_NULL", "a datatype"};
    case Kind::kGroup: return {kErrGroup, "MPI_GROUP_NULL", "a group"};
    case Kind::kOp: return {kErrOp, "MPI_OP_NULL", "an operation"};
    case Kind::kRequest: return {kErrRequest, "MPI_REQUEST_NULL", "a request"};
    case Kind::kInfo: return {kErrInfo, "MPI_INFO_NULL", "an info object"};
    case Kind::kErrhandler: return {kErrErrhandler, "MPI_ERRHANDLER_NULL", "an error handler"};
    case Kind::kMessage: return {kErrRequest, "MPI_MESSAGE_NULL", "a message"};
    case Kind::kSession: return {kErrSession, "MPI_SESSION_NULL", "a session"};
    case Kind::kFreed: break;
  }
  return {kErrArg, "null", "a handle"};
}

std::string hexadecimal(std::uint64_t value) {
  std::string digits;
  do {
    digits += "0123456789abcdef"[value % 16];
    value /= 16;
  } while (value != 0);
  digits += "x0";
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace

void TextOut::set(std::string_view text) const {
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(limit_ - 1, 0));
  const std::size_t written = std::min(text.size(), room);
  if (at_ != nullptr && limit_ > 0) {
    std::memcpy(at_, text.data(), written);
    at_[written] = '\0';
  }
  if (length_ != nullptr) {
    *length_ = static_cast<int>(told_ == Told::kWritten ? written : text.size() + 1);
  }
}

int Call::fail(int code, std::string text) {
  code_ = code;
  text_ = std::string(name_) + ": " + std::move(text);
  return code;
}

bool Call::refuse_stage() {
  const Stage at = stage();
  (void)fail(kErrOther, at == Stage::kBefore ? "called before MPI_Init"
                        : at == Stage::kForked
                            ? "called in a forked child, which has no part in its parent's "
                              "MPI; accepted: calls of the parent, and programs that the "
                              "child executes"
                            : "called after MPI_Finalize");
  return false;
}

void Call::refuse_handle(Kind kind, const char* argument, bool is_null, const void* slot) {
  const KindText text = text_of(kind);
  const std::string name = argument;
  if (is_null) {
    (void)fail(text.code, name + " is " + text.null_name + "; accepted: " + text.what);
    return;
  }
  std::uint64_t value = 0;
  std::memcpy(&value, slot, abi_.handle_bytes(kind));
  (void)fail(text.code, name + " is " + hexadecimal(value) +
                            ", which is no handle, or one that was freed; accepted: " + text.what);
}

int Call::end_failed(int code, Comm* comm, Session* session) {
  return abi_.from_core(Meaning::kError,
                        raise(*this, code, comm_ != nullptr ? comm_ : comm, session));
}

}  // namespace holdfast::mpi
