// Checks of arguments that many calls share: the first that fails names argument, value, and what
// is accepted.
#pragma once

#include <cstdint>
#include <string>

#include "mpi/comms/comm.h"
#include "mpi/core/call.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {

class Checks {
 public:
  explicit Checks(Call& call) : call_(call) {}

  // Usage: `if (Checks checks(call); checks.count(...).type(...).failed()) return checks.code();`
  bool failed() const { return code_ != kSuccess; }
  int code() const { return code_; }

  Checks& count(const char* name, std::int64_t value) {
    if (!failed() && value < 0) refuse(kErrCount, name, value, "0 or more");
    return *this;
  }
  // Committed.
  Checks& type(const char* name, const Datatype* type) {
    if (failed()) return *this;
    if (type == nullptr) {
      code_ =
          call_.fail(kErrType, std::string(name) + " is MPI_DATATYPE_NULL; a datatype is needed");
    } else if (!type->committed) {
      code_ = call_.fail(kErrType,
                         std::string(name) + " is not committed; MPI_Type_commit() does that");
    }
    return *this;
  }
  Checks& buffer(const char* name, const void* at, std::int64_t count, const Datatype* type) {
    if (!failed() && !type->fits(count)) {
      code_ = call_.fail(kErrCount, std::to_string(count) + " elements of " + text_of(*type) +
                                        " are more bytes than 63 bits can count");
    }
    if (failed() || at != nullptr || count == 0 || type->layout.size() == 0) return *this;
    // A type with absolute addresses begins at MPI_BOTTOM.
    if (type->layout.true_lb() == 0) {
      code_ = call_.fail(kErrBuffer, std::string(name) + " is a null pointer, and there are " +
                                         std::to_string(count) + " elements");
    }
    return *this;
  }
  Checks& dest(int rank, const Comm& comm) {
    if (!failed() && rank != kProcNull && (rank < 0 || rank >= comm.peers().size())) {
      refuse(kErrRank, "dest", rank, ranks_of(comm) + ", or MPI_PROC_NULL");
    }
    return *this;
  }
  Checks& source(int rank, const Comm& comm) {
    const bool named = rank == kProcNull || rank == kAnySource;
    if (!failed() && !named && (rank < 0 || rank >= comm.peers().size())) {
      refuse(kErrRank, "source", rank, ranks_of(comm) + ", MPI_ANY_SOURCE or MPI_PROC_NULL");
    }
    return *this;
  }
  Checks& tag(const char* name, int tag) {
    if (!failed() && tag < 0) refuse(kErrTag, name, tag, "0 to MPI_TAG_UB (2147483647)");
    return *this;
  }
  Checks& any_tag(const char* name, int tag) {
    if (!failed() && tag < 0 && tag != kAnyTag) {
      refuse(kErrTag, name, tag, "0 to MPI_TAG_UB (2147483647), or MPI_ANY_TAG");
    }
    return *this;
  }
  Checks& root(int root, const Comm& comm) {
    if (failed()) return *this;
    const bool named = comm.is_inter() && (root == kRoot || root == kProcNull);
    if (!named && (root < 0 || root >= comm.peers().size())) {
      refuse(kErrRoot, "root", root,
             ranks_of(comm) + (comm.is_inter() ? ", MPI_ROOT or MPI_PROC_NULL" : ""));
    }
    return *this;
  }
  Checks& intra(const Comm& comm) {
    if (!failed() && comm.is_inter()) {
      code_ = call_.fail(kErrComm, "comm is an inter-communicator; the call takes none");
    }
    return *this;
  }
  Checks& inter(const Comm& comm) {
    if (!failed() && !comm.is_inter()) {
      code_ = call_.fail(kErrComm, "comm is no inter-communicator; the call needs one");
    }
    return *this;
  }
  // Any other condition.
  Checks& that(bool good, int error, const std::string& text) {
    if (!failed() && !good) code_ = call_.fail(error, text);
    return *this;
  }

 private:
  static std::string ranks_of(const Comm& comm) {
    return "0 to " + std::to_string(comm.peers().size() - 1);
  }
  void refuse(int error, const char* name, std::int64_t value, const std::string& accepted) {
    code_ = call_.fail(
        error, std::string(name) + " is " + std::to_string(value) + "; accepted: " + accepted);
  }

  Call& call_;
  int code_ = kSuccess;
};

}  // namespace holdfast::mpi
