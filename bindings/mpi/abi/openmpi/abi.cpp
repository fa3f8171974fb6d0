#include "mpi/abi/openmpi/abi.h"

#include <array>

#include "mpi/core/call.h"
#include "mpi_values.h"

// The header's names of these are MPI_COMM_NULL_COPY_FN and so on.
extern "C" {
HOLDFAST_MPI int OMPI_C_MPI_COMM_NULL_COPY_FN(void*, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return 0;
}
HOLDFAST_MPI int OMPI_C_MPI_COMM_DUP_FN(void*, int, void*, void* value, void* copy, int* flag) {
  *static_cast<void**>(copy) = value;
  *flag = 1;
  return 0;
}
HOLDFAST_MPI int OMPI_C_MPI_COMM_NULL_DELETE_FN(void*, int, void*, void*) { return 0; }

// The same functions under the names for types and windows.
using CopyFunction = int(void*, int, void*, void*, void*, int*);
using DeleteFunction = int(void*, int, void*, void*);
HOLDFAST_MPI_WEAK(OMPI_C_MPI_COMM_NULL_COPY_FN) CopyFunction OMPI_C_MPI_TYPE_NULL_COPY_FN;
HOLDFAST_MPI_WEAK(OMPI_C_MPI_COMM_NULL_COPY_FN) CopyFunction OMPI_C_MPI_WIN_NULL_COPY_FN;
HOLDFAST_MPI_WEAK(OMPI_C_MPI_COMM_DUP_FN) CopyFunction OMPI_C_MPI_TYPE_DUP_FN;
HOLDFAST_MPI_WEAK(OMPI_C_MPI_COMM_DUP_FN) CopyFunction OMPI_C_MPI_WIN_DUP_FN;
HOLDFAST_MPI_WEAK(OMPI_C_MPI_COMM_NULL_DELETE_FN) DeleteFunction OMPI_C_MPI_TYPE_NULL_DELETE_FN;
HOLDFAST_MPI_WEAK(OMPI_C_MPI_COMM_NULL_DELETE_FN) DeleteFunction OMPI_C_MPI_WIN_NULL_DELETE_FN;
}

namespace holdfast::mpi::entry {
namespace {

template <class F>
Function of(F* function) {
  return reinterpret_cast<Function>(function);
}

Abi::NamedCopy named_copy(Function function) {
  if (function == of(OMPI_C_MPI_COMM_NULL_COPY_FN)) return Abi::NamedCopy::kNull;
  if (function == of(OMPI_C_MPI_TYPE_NULL_COPY_FN)) return Abi::NamedCopy::kNull;
  if (function == of(OMPI_C_MPI_COMM_DUP_FN)) return Abi::NamedCopy::kDup;
  if (function == of(OMPI_C_MPI_TYPE_DUP_FN)) return Abi::NamedCopy::kDup;
  // Nobody's: a program that passes none is served as if it had named one.
  return function == nullptr ? Abi::NamedCopy::kNull : Abi::NamedCopy::kNone;
}

bool is_null_delete(Function function) {
  return function == nullptr || function == of(OMPI_C_MPI_COMM_NULL_DELETE_FN) ||
         function == of(OMPI_C_MPI_TYPE_NULL_DELETE_FN);
}

constexpr auto handles() {
  std::array<Predefined*, kFirstMade> made{};
  for (const HandleRow& row : kHandles) made[static_cast<std::size_t>(row.number)] = row.handle;
  return made;
}
constexpr auto kHandleOf = handles();

}  // namespace

Object* first_use(Predefined* variable, Kind kind) {
  for (const HandleRow& row : kHandles) {
    if (row.handle != variable || row.kind != kind) continue;
    Object* object = registry().find(kind, row.number);
    // Release: who loads the address sees the object.
    if (object != nullptr) variable->object.store(object, std::memory_order_release);
    return object;
  }
  return nullptr;
}

Handle predefined_handle(std::int32_t number) {
  return kHandleOf[static_cast<std::size_t>(number)];
}

}  // namespace holdfast::mpi::entry

#include "mpi/abi/functions.h"

namespace holdfast::mpi::entry {

const Abi kAbi = abi_named("openmpi", -1, -1);

}  // namespace holdfast::mpi::entry
