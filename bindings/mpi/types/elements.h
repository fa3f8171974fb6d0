// ElementList: the basic elements of a datatype in the order of its typemap, without where they
// lie: what MPI_Get_elements counts, and what external32 converts. Repetitions stay repetitions, so
// that a type of a billion elements is a few nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "mpi/types/basic_types.h"

namespace holdfast::mpi {

struct ElementNode;
// Its owners are the datatypes and nodes above it. Null: no elements.
using ElementList = std::shared_ptr<const ElementNode>;

// `repeat` times: a basic element, another node, or a list of nodes.
struct ElementNode {
  std::uint64_t repeat = 1;
  const BasicType* basic = nullptr;
  std::vector<ElementList> parts{};  // where basic is null
  std::uint32_t depth = 0;
  // Of all repetitions.
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t external = 0;  // in external32
};

// The caller has checked that the bytes of the whole fit 63 bits.
ElementList elements_of(const BasicType& basic);
ElementList repeated(std::uint64_t times, const ElementList& elements);
ElementList joined(const std::vector<ElementList>& parts);

// Whether both are the same elements in the same order and grouping.
bool operator==(const ElementNode& a, const ElementNode& b);

// How many whole elements the first `bytes` of them are, which are at most all. False: the last one
// is cut off.
bool count_in(const ElementList& elements, std::uint64_t bytes, std::uint64_t* count);
// Bytes of the first `count` of them, which are at most all.
std::uint64_t bytes_of_first(const ElementList& elements, std::uint64_t count);
// The basic elements run by run, in order.
using EachRun = std::function<void(const BasicType& basic, std::uint64_t count)>;
void for_each_run(const ElementList& elements, const EachRun& each);

}  // namespace holdfast::mpi
