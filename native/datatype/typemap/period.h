// Finds what repeats in a list of blocks or nodes: the shortest pattern of which the whole list is
// repetitions at one stride. Its length is the smallest period of the sequence of (block, distance
// to the next block), by the failure function of Knuth, Morris and Pratt (1977), where that divides
// the list's length: if any period up to half of the list does, the smallest does (Fine and Wilf).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datatype/typemap/node.h"

namespace holdfast::datatype {

// The length of the pattern: a divisor of the list's length, which it is when nothing repeats.
std::size_t pattern(const std::vector<std::int64_t>& offsets,
                    const std::vector<std::uint64_t>& lengths);
std::size_t pattern(const std::vector<PlacedNode>& parts);

// The end of the row of blocks of one length at one stride that begins at `first`.
std::size_t row_end(const std::vector<std::int64_t>& offsets,
                    const std::vector<std::uint64_t>& lengths, std::size_t first);

}  // namespace holdfast::datatype
