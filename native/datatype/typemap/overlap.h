// Whether a node names a byte twice.
#pragma once

#include <cstdint>

#include "datatype/typemap/node.h"

namespace holdfast::datatype {

// Exact up to `most_sorted` blocks and for one list of blocks; above, false only where it is
// proven.
bool may_name_twice(const NodeRef& node, std::uint64_t most_sorted);

}  // namespace holdfast::datatype
