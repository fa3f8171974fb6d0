#include "mpi/core/error_codes.h"

namespace holdfast::mpi {

namespace {

struct CodeRow {
  std::string_view name;
  std::string_view text;
};

// By number: MPI's classes follow each other without a gap.
constexpr CodeRow kCodeRows[] = {
    {"MPI_SUCCESS", "no error"},
    {"MPI_ERR_BUFFER", "invalid buffer"},
    {"MPI_ERR_COUNT", "invalid count"},
    {"MPI_ERR_TYPE", "invalid datatype"},
    {"MPI_ERR_TAG", "invalid tag"},
    {"MPI_ERR_COMM", "invalid communicator"},
    {"MPI_ERR_RANK", "invalid rank"},
    {"MPI_ERR_REQUEST", "invalid request"},
    {"MPI_ERR_ROOT", "invalid root"},
    {"MPI_ERR_GROUP", "invalid group"},
    {"MPI_ERR_OP", "invalid reduction operation"},
    {"MPI_ERR_TOPOLOGY", "invalid communicator topology"},
    {"MPI_ERR_DIMS", "invalid dimensions"},
    {"MPI_ERR_ARG", "invalid argument"},
    {"MPI_ERR_UNKNOWN", "unknown error"},
    {"MPI_ERR_TRUNCATE", "message longer than what receives it"},
    {"MPI_ERR_OTHER", "an error that no other class names"},
    {"MPI_ERR_INTERN", "internal error"},
    {"MPI_ERR_PENDING", "the request is not complete yet"},
    {"MPI_ERR_IN_STATUS", "the error codes are in the statuses"},
    {"MPI_ERR_ACCESS", "permission denied"},
    {"MPI_ERR_AMODE", "invalid access mode of a file"},
    {"MPI_ERR_ASSERT", "invalid assertion"},
    {"MPI_ERR_BAD_FILE", "invalid file name"},
    {"MPI_ERR_BASE", "invalid base address"},
    {"MPI_ERR_CONVERSION", "data could not be converted"},
    {"MPI_ERR_DISP", "invalid displacement"},
    {"MPI_ERR_DUP_DATAREP", "the data representation exists already"},
    {"MPI_ERR_FILE_EXISTS", "the file exists already"},
    {"MPI_ERR_FILE_IN_USE", "the file is in use"},
    {"MPI_ERR_FILE", "invalid file handle"},
    {"MPI_ERR_INFO_KEY", "invalid key of an info"},
    {"MPI_ERR_INFO_NOKEY", "the info has no such key"},
    {"MPI_ERR_INFO_VALUE", "invalid value of an info"},
    {"MPI_ERR_INFO", "invalid info"},
    {"MPI_ERR_IO", "an error of input or output"},
    {"MPI_ERR_KEYVAL", "invalid key of an attribute"},
    {"MPI_ERR_LOCKTYPE", "invalid type of a lock"},
    {"MPI_ERR_NAME", "the service name is not published"},
    {"MPI_ERR_NO_MEM", "out of memory"},
    {"MPI_ERR_NOT_SAME", "an argument that has to be the same on all ranks is not"},
    {"MPI_ERR_NO_SPACE", "no space left on the device"},
    {"MPI_ERR_NO_SUCH_FILE", "the file does not exist"},
    {"MPI_ERR_PORT", "invalid port name"},
    {"MPI_ERR_QUOTA", "the quota is used up"},
    {"MPI_ERR_READ_ONLY", "the file or file system is read-only"},
    {"MPI_ERR_RMA_ATTACH", "memory could not be attached to a window"},
    {"MPI_ERR_RMA_CONFLICT", "conflicting accesses to a window"},
    {"MPI_ERR_RMA_RANGE", "memory outside the window"},
    {"MPI_ERR_RMA_SHARED", "memory of the window cannot be shared"},
    {"MPI_ERR_RMA_SYNC", "wrong synchronisation of accesses to a window"},
    {"MPI_ERR_SERVICE", "invalid service name"},
    {"MPI_ERR_SIZE", "invalid size"},
    {"MPI_ERR_SPAWN", "processes could not be started"},
    {"MPI_ERR_UNSUPPORTED_DATAREP", "the data representation is not supported"},
    {"MPI_ERR_UNSUPPORTED_OPERATION", "the operation is not supported"},
    {"MPI_ERR_WIN", "invalid window"},
    {"MPI_ERR_RMA_FLAVOR", "the window is of the wrong flavor"},
    {"MPI_ERR_PROC_ABORTED", "a process that takes part has ended"},
    {"MPI_ERR_VALUE_TOO_LARGE", "the value does not fit its argument"},
    {"MPI_ERR_SESSION", "invalid session"},
    {"MPI_ERR_ERRHANDLER", "invalid error handler"},
    {"MPI_ERR_ABI", "wrong use of the binary interface"},
};
static_assert(std::size(kCodeRows) == kErrAbi + 1);

bool is_own(int code) { return code >= kSuccess && code <= kErrAbi; }

std::string own_and_added(const char* what) {
  return std::string("accepted are ") + what + " that the program added and has not removed";
}

}  // namespace

std::string_view error_name(int code) {
  return is_own(code) ? kCodeRows[static_cast<std::size_t>(code)].name : std::string_view();
}

const ErrorCodes::Added* ErrorCodes::find(int code) const {
  const auto at = added_.find(code);
  return at == added_.end() ? nullptr : &at->second;
}

bool ErrorCodes::add_class(int* added, std::string* problem) {
  const std::lock_guard lock(mutex_);
  const int code = added_.empty() ? kFirstUserError : added_.rbegin()->first + 1;
  if (code >= kFirstUserError + kMostAdded) {
    *problem = "there are " + std::to_string(kMostAdded) + " added classes and codes already";
    return false;
  }
  added_[code] = {.is_class = true, .of_class = code, .codes = 0, .text = {}, .has_text = false};
  *added = code;
  return true;
}

bool ErrorCodes::add_code(int error_class, int* added, std::string* problem) {
  const std::lock_guard lock(mutex_);
  const auto of = added_.find(error_class);
  if (!is_own(error_class) && (of == added_.end() || !of->second.is_class)) {
    *problem = "errorclass is " + std::to_string(error_class) +
               ", accepted are MPI's classes and those that the program added";
    return false;
  }
  const int code = added_.empty() ? kFirstUserError : added_.rbegin()->first + 1;
  if (code >= kFirstUserError + kMostAdded) {
    *problem = "there are " + std::to_string(kMostAdded) + " added classes and codes already";
    return false;
  }
  if (of != added_.end()) ++of->second.codes;
  added_[code] = {
      .is_class = false, .of_class = error_class, .codes = 0, .text = {}, .has_text = false};
  *added = code;
  return true;
}

bool ErrorCodes::set_text(int code, std::string_view text, std::string* problem) {
  const std::lock_guard lock(mutex_);
  const auto at = added_.find(code);
  if (at == added_.end()) {
    *problem = "errorcode is " + std::to_string(code) + ", " + own_and_added("classes and codes");
    return false;
  }
  at->second.text = text;
  at->second.has_text = true;
  return true;
}

bool ErrorCodes::remove_class(int code, std::string* problem) {
  const std::lock_guard lock(mutex_);
  const Added* of = find(code);
  if (of == nullptr || !of->is_class) {
    *problem = "errorclass is " + std::to_string(code) + ", " + own_and_added("classes");
    return false;
  }
  if (of->codes != 0 || of->has_text) {
    *problem = "errorclass is " + std::to_string(code) + ", which still has " +
               (of->codes != 0 ? std::to_string(of->codes) + " codes" : "a text") +
               ": accepted are classes whose codes and text were removed before";
    return false;
  }
  added_.erase(code);
  return true;
}

bool ErrorCodes::remove_code(int code, std::string* problem) {
  const std::lock_guard lock(mutex_);
  const Added* of = find(code);
  if (of == nullptr || of->is_class) {
    *problem = "errorcode is " + std::to_string(code) + ", " + own_and_added("codes");
    return false;
  }
  if (of->has_text) {
    *problem = "errorcode is " + std::to_string(code) +
               ", which still has a text: accepted are codes whose text was removed before";
    return false;
  }
  const auto of_class = added_.find(of->of_class);
  if (of_class != added_.end()) --of_class->second.codes;
  added_.erase(code);
  return true;
}

bool ErrorCodes::remove_text(int code, std::string* problem) {
  const std::lock_guard lock(mutex_);
  const auto at = added_.find(code);
  if (at == added_.end() || !at->second.has_text) {
    *problem = "errorcode is " + std::to_string(code) + ", accepted are codes with a text that " +
               "the program added and has not removed";
    return false;
  }
  at->second.text.clear();
  at->second.has_text = false;
  return true;
}

bool ErrorCodes::knows(int code) const {
  const std::lock_guard lock(mutex_);
  return is_own(code) || find(code) != nullptr;
}

int ErrorCodes::class_of(int code) const {
  if (is_own(code)) return code;
  const std::lock_guard lock(mutex_);
  const Added* of = find(code);
  return of == nullptr ? static_cast<int>(kErrUnknown) : of->of_class;
}

std::string ErrorCodes::text(int code) const {
  const std::lock_guard lock(mutex_);
  if (!is_own(code)) {
    const Added* of = find(code);
    return of == nullptr ? "no error code: " + std::to_string(code) : of->text;
  }
  const CodeRow& row = kCodeRows[static_cast<std::size_t>(code)];
  const std::string& last = last_failure_[static_cast<std::size_t>(code)];
  std::string text = std::string(row.name) + ": " + std::string(row.text);
  return last.empty() ? text : text + "; " + last;
}

int ErrorCodes::last_used() const {
  const std::lock_guard lock(mutex_);
  return added_.empty() ? kFirstUserError - 1 : added_.rbegin()->first;
}

void ErrorCodes::remember(int code, std::string_view text) {
  if (!is_own(code) || code == kSuccess) return;
  const std::lock_guard lock(mutex_);
  last_failure_[static_cast<std::size_t>(code)] = text.substr(0, kMostText);
}

}  // namespace holdfast::mpi
