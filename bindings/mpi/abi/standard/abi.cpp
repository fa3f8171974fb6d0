#include "mpi/abi/standard/abi.h"

#include "mpi/core/call.h"
#include "mpi_values.h"

namespace holdfast::mpi::entry {
namespace {

// The standard's named functions are numbers.
Abi::NamedCopy named_copy(Function function) {
  const auto value = reinterpret_cast<std::uintptr_t>(function);
  if (value > 1) return Abi::NamedCopy::kNone;
  return value == 0 ? Abi::NamedCopy::kNull : Abi::NamedCopy::kDup;
}
bool is_null_delete(Function function) { return function == nullptr; }

constexpr bool handles_are_numbers() {
  for (const HandleRow& row : kHandles) {
    if (row.handle != row.number) return false;
  }
  return true;
}
static_assert(handles_are_numbers());

}  // namespace
}  // namespace holdfast::mpi::entry

#include "mpi/abi/functions.h"

namespace holdfast::mpi::entry {

const Abi kAbi = abi_named("abi", 1, 0);

}  // namespace holdfast::mpi::entry
