// external32: the representation that MPI defines for files and messages between machines: big
// endian, with sizes of its own (MPI-4.1, 14.5.2).
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/types/elements.h"

namespace holdfast::mpi {

// Converts `count` times the elements from their packed form, and back. Null: done; else the name
// of a type of which a value does not fit, as longs have four bytes there.
const char* to_external32(const ElementList& elements, std::uint64_t count, const std::byte* packed,
                          std::byte* external);
const char* from_external32(const ElementList& elements, std::uint64_t count,
                            const std::byte* external, std::byte* packed);

}  // namespace holdfast::mpi
