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
    if (!failed() && at == kInPlace && count > 0) {
      code_ = call_.fail(kErrBuffer, std::string(name) + " is MPI_IN_PLACE; accepted: an address");
    }
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
  // An array of so many; a null pointer is one of none.
  template <class Array>
  Checks& array(const char* name, const Array& array, std::int64_t count) {
    if (!failed() && count > 0 && array.is_null()) {
      code_ = call_.fail(kErrArg, std::string(name) + " is a null pointer; accepted: an array of " +
                                      std::to_string(count));
    }
    return *this;
  }
  // For what is written: no byte twice.
  Checks& apart(const char* name, std::int64_t count, const Datatype* type) {
    if (failed() || !type->overlaps(count)) return *this;
    code_ = call_.fail(kErrType, std::string(name) + " is " + text_of(*type) + ", of which " +
                                     std::to_string(count) +
                                     " name some bytes twice; accepted where data is received: "
                                     "types that do not");
    return *this;
  }
  Checks& dest(int rank, const Comm& comm) {
    if (!failed() && rank != kProcNull && (rank < 0 || rank >= comm.peers().size())) {
      refuse_named(kErrRank, "dest", Meaning::kRank, rank, ranks_of(comm) + ", or MPI_PROC_NULL");
    }
    return *this;
  }
  Checks& source(int rank, const Comm& comm) {
    const bool named = rank == kProcNull || rank == kAnySource;
    if (!failed() && !named && (rank < 0 || rank >= comm.peers().size())) {
      refuse_named(kErrRank, "source", Meaning::kRank, rank,
                   ranks_of(comm) + ", MPI_ANY_SOURCE or MPI_PROC_NULL");
    }
    return *this;
  }
  Checks& tag(const char* name, int tag) {
    if (!failed() && tag < 0)
      refuse_named(kErrTag, name, Meaning::kTag, tag, "0 to MPI_TAG_UB (2147483647)");
    return *this;
  }
  Checks& any_tag(const char* name, int tag) {
    if (!failed() && tag < 0 && tag != kAnyTag) {
      refuse_named(kErrTag, name, Meaning::kTag, tag,
                   "0 to MPI_TAG_UB (2147483647), or MPI_ANY_TAG");
    }
    return *this;
  }
  Checks& root(int root, const Comm& comm) {
    if (failed()) return *this;
    const bool named = comm.is_inter() && (root == kRoot || root == kProcNull);
    if (!named && (root < 0 || root >= comm.peers().size())) {
      refuse_named(kErrRoot, "root", Meaning::kRank, root,
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
  // As the program wrote it, which its ABI may spell another way.
  void refuse_named(int error, const char* name, Meaning meaning, int value,
                    const std::string& accepted) {
    const bool is_tag = meaning == Meaning::kTag;
    const char* known = is_tag && value == kAnyTag       ? "MPI_ANY_TAG"
                        : !is_tag && value == kAnySource ? "MPI_ANY_SOURCE"
                        : !is_tag && value == kProcNull  ? "MPI_PROC_NULL"
                        : !is_tag && value == kRoot      ? "MPI_ROOT"
                                                         : nullptr;
    const std::string said =
        known != nullptr ? known : std::to_string(call_.abi().from_core(meaning, value));
    code_ = call_.fail(error, std::string(name) + " is " + said + "; accepted: " + accepted);
  }
  void refuse(int error, const char* name, std::int64_t value, const std::string& accepted) {
    code_ = call_.fail(
        error, std::string(name) + " is " + std::to_string(value) + "; accepted: " + accepted);
  }

  Call& call_;
  int code_ = kSuccess;
};

}  // namespace holdfast::mpi
