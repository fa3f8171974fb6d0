// Datatypes of parts of arrays: MPI-4.1, 5.1.3 and 5.1.4.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "mpi/calls.h"
#include "mpi/calls/made.h"
#include "mpi/calls/type_maker.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {

namespace {

using datatype::TypeLayout;
using Numbers = std::vector<std::int64_t>;

int refuse(Call& call, const std::string& argument, std::int64_t value,
           const std::string& accepted) {
  return call.fail(kErrArg, argument + " is " + std::to_string(value) + ", accepted: " + accepted);
}

int check_order(Call& call, int order) {
  if (order == kOrderC || order == kOrderFortran) return kSuccess;
  return refuse(call, "order", order, "MPI_ORDER_C and MPI_ORDER_FORTRAN");
}

// What a rank has of one dimension: `blocks` blocks of `length` indices, `step` apart, and then
// `rest` indices more, the first at index `start`.
struct Portion {
  std::int64_t start = 0;
  std::int64_t length = 0;
  std::int64_t step = 0;
  std::int64_t blocks = 0;
  std::int64_t rest = 0;

  std::int64_t indices() const { return blocks * length + rest; }
};

// An array's layout as it grows, the fastest dimension first.
class ArrayLayout {
 public:
  explicit ArrayLayout(const TypeLayout& element) : layout_(element), stride_(element.extent()) {}

  // Adds the next dimension, which has `size` indices in the whole array.
  holdfast::Status add(std::int64_t size, const Portion& part) {
    std::int64_t place = 0;
    if (__builtin_mul_overflow(part.start, stride_, &place) ||
        __builtin_add_overflow(place_, place, &place_)) {
      return too_large();
    }
    std::int64_t step = 0;
    std::int64_t end = 0;
    if (__builtin_mul_overflow(part.step, stride_, &step) ||
        __builtin_mul_overflow(part.blocks, step, &end)) {
      return too_large();
    }
    auto block = TypeLayout::hvector(part.length, 1, stride_, layout_);
    if (!block.is_ok()) return block.status();
    auto blocks = TypeLayout::hvector(part.blocks, 1, step, block.value());
    if (!blocks.is_ok()) return blocks.status();
    auto rest = TypeLayout::hvector(part.rest, 1, stride_, layout_);
    if (!rest.is_ok()) return rest.status();
    layout_ = std::move(blocks).value();
    if (part.rest != 0) {
      const std::array<std::int64_t, 2> lengths{1, 1};
      const std::array<std::int64_t, 2> places{0, end};
      const std::array<TypeLayout, 2> parts{layout_, std::move(rest).value()};
      auto both = TypeLayout::structure(lengths, places, parts);
      if (!both.is_ok()) return both.status();
      layout_ = std::move(both).value();
    }
    return __builtin_mul_overflow(stride_, size, &stride_) ? too_large() : holdfast::Status::ok();
  }

  // Its extent is that of the whole array.
  Result<TypeLayout> finish() const {
    const std::array<std::int64_t, 1> place{place_};
    auto placed = TypeLayout::hindexed_block(1, place, layout_);
    if (!placed.is_ok()) return placed.status();
    return TypeLayout::resized(placed.value(), 0, stride_);
  }

 private:
  static holdfast::Status too_large() {
    return {Code::kConfigError, "the array has more bytes than 64 bits can count"};
  }

  TypeLayout layout_;
  std::int64_t stride_;  // of the next dimension's indices, in bytes
  std::int64_t place_ = 0;
};

// The type of an array of which there is such a part in each dimension.
int make_array(TypeMaker& maker, int order, const Numbers& sizes, const std::vector<Portion>& parts,
               Datatype* oldtype, Datatype*& newtype) {
  ArrayLayout array(oldtype->layout);
  std::uint64_t elements = 1;
  holdfast::Status status;
  for (std::size_t i = 0; i < sizes.size() && status.is_ok(); ++i) {
    const std::size_t dim = order == kOrderC ? sizes.size() - 1 - i : i;
    status = array.add(sizes[dim], parts[dim]);
    elements *= static_cast<std::uint64_t>(parts[dim].indices());
  }
  maker.type(oldtype);
  if (!status.is_ok()) return maker.finish(std::move(status), nullptr, newtype);
  return maker.finish(array.finish(), repeated(elements, oldtype->elements), newtype);
}

int check_subarray(Call& call, const Numbers& sizes, const Numbers& subsizes,
                   const Numbers& starts) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1) {
      return refuse(call, element("array_of_sizes", i), sizes[i], "numbers from 1");
    }
    if (subsizes[i] < 1 || subsizes[i] > sizes[i]) {
      return refuse(call, element("array_of_subsizes", i), subsizes[i],
                    "1 to " + std::to_string(sizes[i]) + ", as the array has in that dimension");
    }
    if (starts[i] < 0 || starts[i] > sizes[i] - subsizes[i]) {
      return refuse(call, element("array_of_starts", i), starts[i],
                    "0 to " + std::to_string(sizes[i] - subsizes[i]));
    }
  }
  return kSuccess;
}

// A dimension of a distributed array, and the place of the rank in it.
struct Dimension {
  std::int64_t size = 0;
  std::int64_t distribution = 0;
  std::int64_t argument = 0;
  std::int64_t processes = 0;
  std::int64_t coordinate = 0;
};

int check_dimension(Call& call, std::size_t i, const Dimension& dim) {
  if (dim.size < 1) {
    return refuse(call, element("array_of_gsizes", i), dim.size, "numbers from 1");
  }
  if (dim.processes < 1) {
    return refuse(call, element("array_of_psizes", i), dim.processes, "numbers from 1");
  }
  const bool known = dim.distribution == kDistributeNone || dim.distribution == kDistributeBlock ||
                     dim.distribution == kDistributeCyclic;
  if (!known) {
    return refuse(call, element("array_of_distribs", i), dim.distribution,
                  "MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK and MPI_DISTRIBUTE_CYCLIC");
  }
  if (dim.distribution == kDistributeNone) {
    if (dim.processes == 1) return kSuccess;
    return refuse(call, element("array_of_psizes", i), dim.processes,
                  "1, as the dimension is MPI_DISTRIBUTE_NONE");
  }
  if (dim.argument == kDistributeDefaultArg) return kSuccess;
  if (dim.argument < 1) {
    return refuse(call, element("array_of_dargs", i), dim.argument,
                  "numbers from 1 and MPI_DISTRIBUTE_DFLT_DARG");
  }
  const std::int64_t least = (dim.size + dim.processes - 1) / dim.processes;
  if (dim.distribution == kDistributeBlock && dim.argument < least) {
    return refuse(call, element("array_of_dargs", i), dim.argument,
                  "numbers from " + std::to_string(least) +
                      ", so that the blocks of all processes cover the dimension");
  }
  return kSuccess;
}

Portion part_of(const Dimension& dim) {
  if (dim.distribution == kDistributeNone) {
    return {.start = 0, .length = dim.size, .step = dim.size, .blocks = 1};
  }
  const bool is_default = dim.argument == kDistributeDefaultArg;
  if (dim.distribution == kDistributeBlock) {
    const std::int64_t even = (dim.size + dim.processes - 1) / dim.processes;
    const std::int64_t block = is_default ? even : dim.argument;
    const std::int64_t left =
        dim.coordinate > dim.size / block ? 0 : dim.size - block * dim.coordinate;
    const std::int64_t mine = std::clamp<std::int64_t>(left, 0, block);
    return {
        .start = mine == 0 ? 0 : block * dim.coordinate, .length = mine, .step = mine, .blocks = 1};
  }
  const std::int64_t block = is_default ? 1 : std::min(dim.argument, dim.size);
  if (dim.coordinate > (dim.size - 1) / block) return {};
  const std::int64_t start = block * dim.coordinate;
  // No larger step than the array: there is one block then.
  const std::int64_t step = dim.processes > dim.size / block ? dim.size : block * dim.processes;
  const std::int64_t left = dim.size - start;
  const std::int64_t rest = std::min(left % step, block);
  return {.start = start,
          .length = block,
          .step = step,
          .blocks = left / step + (rest == block ? 1 : 0),
          .rest = rest == block ? 0 : rest};
}

// Coordinates of `rank` in the grid of processes, whose order is always C's.
void place(int rank, std::vector<Dimension>& dims) {
  std::int64_t left = rank;
  for (std::size_t i = dims.size(); i-- > 0;) {
    dims[i].coordinate = left % dims[i].processes;
    left /= dims[i].processes;
  }
}

int check_grid(Call& call, int size, int rank, const std::vector<Dimension>& dims) {
  std::int64_t processes = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const int code = check_dimension(call, i, dims[i]);
    if (code != kSuccess) return code;
    if (__builtin_mul_overflow(processes, dims[i].processes, &processes)) processes = INT64_MAX;
  }
  if (processes != size) {
    return refuse(call, "size", size,
                  std::to_string(processes) + ", the product of array_of_psizes");
  }
  if (rank < 0 || rank >= size) {
    return refuse(call, "rank", rank, "0 to " + std::to_string(size - 1));
  }
  return kSuccess;
}

}  // namespace

namespace body {

int Type_create_subarray(Call& call, int ndims, const IntArray& array_of_sizes,
                         const IntArray& array_of_subsizes, const IntArray& array_of_starts,
                         int order, Datatype* oldtype, Datatype*& newtype) {
  if (ndims < 1) return refuse(call, "ndims", ndims, "numbers from 1");
  Numbers sizes;
  Numbers subsizes;
  Numbers starts;
  int code = take(call, "array_of_sizes", array_of_sizes, ndims, sizes);
  if (code == kSuccess) code = take(call, "array_of_subsizes", array_of_subsizes, ndims, subsizes);
  if (code == kSuccess) code = take(call, "array_of_starts", array_of_starts, ndims, starts);
  if (code == kSuccess) code = check_subarray(call, sizes, subsizes, starts);
  if (code == kSuccess) code = check_order(call, order);
  if (code != kSuccess) return code;
  TypeMaker maker(call, kCombinerSubarray);
  maker.integer(ndims);
  maker.counts(sizes);
  maker.counts(subsizes);
  maker.counts(starts);
  maker.integer(call.abi().from_core(Meaning::kOrder, order));
  std::vector<Portion> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    parts.push_back({.start = starts[i], .length = subsizes[i], .step = subsizes[i], .blocks = 1});
  }
  return make_array(maker, order, sizes, parts, oldtype, newtype);
}

int Type_create_darray(Call& call, int size, int rank, int ndims, const IntArray& array_of_gsizes,
                       const IntArray& array_of_distribs, const IntArray& array_of_dargs,
                       const IntArray& array_of_psizes, int order, Datatype* oldtype,
                       Datatype*& newtype) {
  if (ndims < 1) return refuse(call, "ndims", ndims, "numbers from 1");
  Numbers sizes;
  Numbers distributions;
  Numbers arguments;
  Numbers processes;
  int code = take(call, "array_of_gsizes", array_of_gsizes, ndims, sizes);
  if (code == kSuccess) {
    code = take(call, "array_of_distribs", array_of_distribs, ndims, distributions);
  }
  if (code == kSuccess) code = take(call, "array_of_dargs", array_of_dargs, ndims, arguments);
  if (code == kSuccess) code = take(call, "array_of_psizes", array_of_psizes, ndims, processes);
  if (code != kSuccess) return code;
  std::vector<Dimension> dims;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    dims.push_back({.size = sizes[i],
                    .distribution = distributions[i],
                    .argument = arguments[i],
                    .processes = processes[i]});
  }
  code = check_grid(call, size, rank, dims);
  if (code == kSuccess) code = check_order(call, order);
  if (code != kSuccess) return code;
  place(rank, dims);

  const Abi& abi = call.abi();
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  TypeMaker maker(call, kCombinerDarray);
  maker.integer(size);
  maker.integer(rank);
  maker.integer(ndims);
  maker.counts(sizes);
  for (const std::int64_t value : distributions) {
    maker.integer(abi.from_core(Meaning::kDistribution, number(value)));
  }
  for (const std::int64_t value : arguments) {
    maker.integer(abi.from_core(Meaning::kDistributionArgument, number(value)));
  }
  for (const std::int64_t value : processes) maker.integer(number(value));
  maker.integer(abi.from_core(Meaning::kOrder, order));
  std::vector<Portion> parts;
  for (const Dimension& dim : dims) parts.push_back(part_of(dim));
  return make_array(maker, order, sizes, parts, oldtype, newtype);
}

}  // namespace body
}  // namespace holdfast::mpi
