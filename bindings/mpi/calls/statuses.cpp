// Statuses: what a message held, and what a program puts there: MPI-4.1, 3.2.5, 3.8 and 13.3.
#include <string>

#include "mpi/calls.h"
#include "mpi/calls/made.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {

namespace {

int refuse_ignored(Call& call, const StatusOut& status) {
  if (!status.is_ignored()) return kSuccess;
  return call.fail(kErrArg, "status is MPI_STATUS_IGNORE, accepted are statuses");
}

// Basic elements of a message of such a type; false: it ends within one.
bool elements_in(const Datatype& type, std::int64_t bytes, std::uint64_t* count) {
  *count = 0;
  if (bytes <= 0 || type.elements == nullptr) return true;
  const std::uint64_t whole = static_cast<std::uint64_t>(bytes) / type.elements->bytes;
  const std::uint64_t rest = static_cast<std::uint64_t>(bytes) % type.elements->bytes;
  const bool ends = count_in(type.elements, rest, count);
  *count += whole * type.elements->count;
  return ends;
}

int set_elements(Call& call, const StatusOut& status, const Datatype& type, std::int64_t count) {
  const int code = refuse_ignored(call, status);
  if (code != kSuccess) return code;
  if (count < 0) {
    return call.fail(kErrCount,
                     "count is " + std::to_string(count) + ", accepted are numbers from 0");
  }
  Status set = status.get();
  set.bytes = 0;
  if (type.elements != nullptr) {
    const auto asked = static_cast<std::uint64_t>(count);
    const std::uint64_t whole = asked / type.elements->count;
    const std::uint64_t rest = bytes_of_first(type.elements, asked % type.elements->count);
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(whole, type.elements->bytes, &bytes) ||
        __builtin_add_overflow(bytes, rest, &set.bytes)) {
      return call.fail(kErrCount, "count is " + std::to_string(count) +
                                      ", whose bytes leave 63 bits; accepted are smaller ones");
    }
  }
  status.set(set, 0, true);
  return kSuccess;
}

}  // namespace

namespace body {

int Get_count(Call& call, const StatusOut& status, Datatype* datatype, std::int64_t& count) {
  const int code = refuse_ignored(call, status);
  if (code != kSuccess) return code;
  const auto bytes = static_cast<std::uint64_t>(status.get().bytes);
  const std::uint64_t size = datatype->layout.size();
  if (size == 0) {
    count = bytes == 0 ? 0 : kUndefined;
  } else {
    count = bytes % size == 0 ? narrowed(call, bytes / size) : kUndefined;
  }
  return kSuccess;
}

int Get_elements(Call& call, const StatusOut& status, Datatype* datatype, std::int64_t& count) {
  const int code = refuse_ignored(call, status);
  if (code != kSuccess) return code;
  std::uint64_t elements = 0;
  const bool ends = elements_in(*datatype, status.get().bytes, &elements);
  count = ends ? narrowed(call, elements) : kUndefined;
  return kSuccess;
}

int Get_elements_x(Call& call, const StatusOut& status, Datatype* datatype, std::int64_t& count) {
  Call wide(call.abi(), call.name(), true);
  const int code = Get_elements(wide, status, datatype, count);
  return code == kSuccess ? code : refuse_ignored(call, status);
}

int Status_set_elements(Call& call, const StatusOut& status, Datatype* datatype,
                        std::int64_t count) {
  return set_elements(call, status, *datatype, count);
}

int Status_set_elements_x(Call& call, const StatusOut& status, Datatype* datatype,
                          std::int64_t count) {
  return set_elements(call, status, *datatype, count);
}

int Status_set_cancelled(Call& call, const StatusOut& status, bool flag) {
  const int code = refuse_ignored(call, status);
  if (code != kSuccess) return code;
  Status set = status.get();
  set.cancelled = flag;
  status.set(set, 0, true);
  return kSuccess;
}

int Status_set_source(Call& call, const StatusOut& status, int source) {
  const int code = refuse_ignored(call, status);
  if (code != kSuccess) return code;
  Status set = status.get();
  set.source = source;
  status.set(set, 0, true);
  return kSuccess;
}

int Status_set_tag(Call& call, const StatusOut& status, int tag) {
  const int code = refuse_ignored(call, status);
  if (code != kSuccess) return code;
  Status set = status.get();
  set.tag = tag;
  status.set(set, 0, true);
  return kSuccess;
}

int Status_set_error(Call& call, const StatusOut& status, int err) {
  const int code = refuse_ignored(call, status);
  if (code != kSuccess) return code;
  Status set = status.get();
  set.error = err;
  status.set(set, 0, true);
  return kSuccess;
}

int Status_get_source(Call& call, const StatusOut& status, int& source) {
  const int code = refuse_ignored(call, status);
  if (code == kSuccess) source = status.get().source;
  return code;
}

int Status_get_tag(Call& call, const StatusOut& status, int& tag) {
  const int code = refuse_ignored(call, status);
  if (code == kSuccess) tag = status.get().tag;
  return code;
}

int Status_get_error(Call& call, const StatusOut& status, int& err) {
  const int code = refuse_ignored(call, status);
  if (code == kSuccess) err = status.get().error;
  return code;
}

}  // namespace body
}  // namespace holdfast::mpi
