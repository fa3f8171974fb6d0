// Communicators with a Cartesian topology, and what they say of it.
#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "mpi/calls.h"
#include "mpi/calls/with_topology.h"

namespace holdfast::mpi {
namespace {

int check_grid(Call& call, const Comm& comm, int ndims, const std::vector<int>& dims) {
  Checks checks(call);
  checks.intra(comm);
  checks.that(ndims >= 0, kErrArg, "ndims is " + std::to_string(ndims) + "; accepted: 0 or more");
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    checks.that(
        dims[i] > 0, kErrDims,
        "dims[" + std::to_string(i) + "] is " + std::to_string(dims[i]) + "; accepted: 1 or more");
    ranks = std::min<std::int64_t>(ranks * std::max(dims[i], 1), std::int64_t{1} << 32);
  }
  checks.that(
      ranks <= comm.size(), kErrTopology,
      "the grid has " + std::to_string(ranks) + " ranks, and comm " + std::to_string(comm.size()));
  return checks.code();
}

std::vector<int> divisors_of(int number) {
  std::vector<int> low;
  std::vector<int> high;
  for (int i = 1; static_cast<std::int64_t>(i) * i <= number; ++i) {
    if (number % i != 0) continue;
    low.push_back(i);
    if (number / i != i) high.push_back(number / i);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// factor ^ exponent, or more than `most`.
std::int64_t power(std::int64_t factor, std::size_t exponent, std::int64_t most) {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < exponent && product <= most; ++i) product *= factor;
  return product;
}

// Divides `nodes` among sizes of which none is below `least` or above `most`, in falling order.
// False: it cannot be done.
bool divide(int nodes, int least, int most, const std::vector<int>& divisors,
            std::span<int> sizes) {
  if (sizes.empty()) return nodes == 1;
  for (auto at = divisors.rbegin(); at != divisors.rend() && *at >= least; ++at) {
    if (*at > most || nodes % *at != 0 || power(*at, sizes.size(), nodes) > nodes) continue;
    sizes.back() = *at;
    if (divide(nodes / *at, *at, most, divisors, sizes.first(sizes.size() - 1))) return true;
  }
  return false;
}

// The sizes whose largest and smallest are nearest to each other; of those the ones whose smallest
// is the largest.
std::vector<int> balanced(int nodes, std::size_t count) {
  const std::vector<int> divisors = divisors_of(nodes);
  std::vector<int> sizes(count, 1);
  std::vector<int> best;
  for (auto least = divisors.rbegin(); least != divisors.rend(); ++least) {
    if (power(*least, count, nodes) > nodes) continue;
    for (const int most : divisors) {
      if (!best.empty() && most - *least >= best.front() - best.back()) break;
      if (power(most, count, nodes) < nodes) continue;
      if (divide(nodes, *least, most, divisors, sizes)) best = sizes;
    }
  }
  return best;
}

void fill_dims(int nodes, std::vector<int*>& open) {
  const std::vector<int> sizes = balanced(nodes, open.size());
  CHECK(sizes.size() == open.size());
  for (std::size_t i = 0; i < open.size(); ++i) *open[i] = sizes[i];
}

}  // namespace

namespace body {

int Topo_test(Call&, Comm* comm, int& status) {
  status = kUndefined;
  if (!comm->topology) return kSuccess;
  status = std::array{kCart, kGraph, kDistGraph}[comm->topology->shape.index()];
  return kSuccess;
}

int Cart_create(Call& call, Comm* comm_old, int ndims, const IntArray& dims,
                const IntArray& periods, bool /*reorder*/, Comm*& comm_cart) {
  if (Checks checks(call);
      checks.array("dims", dims, ndims).array("periods", periods, ndims).failed()) {
    return checks.code();
  }
  Grid grid;
  grid.dims = list_of(dims, ndims);
  for (const int period : list_of(periods, ndims)) grid.periods.push_back(period != 0);
  if (const int code = check_grid(call, *comm_old, ndims, grid.dims); code != kSuccess) return code;
  if (comm_old->rank < grid.size()) grid.coords = grid.coords_of(comm_old->rank);
  const int count = grid.size();
  const Topology topology{std::move(grid)};
  return make_with_topology(call, *comm_old, count, &topology, comm_cart);
}

int Cart_sub(Call& call, Comm* comm, const IntArray& remain_dims, Comm*& newcomm) {
  const auto* grid = shape_of<Grid>(*comm);
  if (grid == nullptr) return no_topology(call, "Cartesian");
  if (Checks checks(call);
      checks.array("remain_dims", remain_dims, static_cast<std::int64_t>(grid->dims.size()))
          .failed()) {
    return checks.code();
  }
  Grid rest;
  int color = 0;
  int key = 0;
  for (std::size_t i = 0; i < grid->dims.size(); ++i) {
    if (remain_dims[i] != 0) {
      rest.dims.push_back(grid->dims[i]);
      rest.periods.push_back(grid->periods[i]);
      rest.coords.push_back(grid->coords[i]);
      key = key * grid->dims[i] + grid->coords[i];
    } else {
      color = color * grid->dims[i] + grid->coords[i];
    }
  }
  if (const int code = Comm_split(call, comm, color, key, newcomm); code != kSuccess) return code;
  newcomm->topology = std::make_shared<Topology>(Topology{std::move(rest)});
  return kSuccess;
}

int Cartdim_get(Call& call, Comm* comm, int& ndims) {
  const auto* grid = shape_of<Grid>(*comm);
  if (grid == nullptr) return no_topology(call, "Cartesian");
  ndims = static_cast<int>(grid->dims.size());
  return kSuccess;
}

int Cart_get(Call& call, Comm* comm, int maxdims, const OutInts& dims, const OutInts& periods,
             const OutInts& coords) {
  const auto* grid = shape_of<Grid>(*comm);
  if (grid == nullptr) return no_topology(call, "Cartesian");
  if (Checks checks(call); checks.array("dims", dims, maxdims)
                               .array("periods", periods, maxdims)
                               .array("coords", coords, maxdims)
                               .failed()) {
    return checks.code();
  }
  write(dims, grid->dims, maxdims);
  write(periods, grid->periods, maxdims);
  write(coords, grid->coords, maxdims);
  return kSuccess;
}

int Cart_rank(Call& call, Comm* comm, const IntArray& coords, int& rank) {
  const auto* grid = shape_of<Grid>(*comm);
  if (grid == nullptr) return no_topology(call, "Cartesian");
  if (Checks checks(call);
      checks.array("coords", coords, static_cast<std::int64_t>(grid->dims.size())).failed()) {
    return checks.code();
  }
  const std::vector<int> at = list_of(coords, static_cast<int>(grid->dims.size()));
  rank = grid->rank_at(at);
  if (rank != kProcNull) return kSuccess;
  return call.fail(kErrArg, "coords are outside of a dimension that does not wrap around");
}

int Cart_coords(Call& call, Comm* comm, int rank, int maxdims, const OutInts& coords) {
  const auto* grid = shape_of<Grid>(*comm);
  if (grid == nullptr) return no_topology(call, "Cartesian");
  if (const int code = check_ranks(call, *comm, "rank", {rank}); code != kSuccess) return code;
  if (Checks checks(call); checks.array("coords", coords, maxdims).failed()) {
    return checks.code();
  }
  write(coords, grid->coords_of(rank), maxdims);
  return kSuccess;
}

int Cart_shift(Call& call, Comm* comm, int direction, int disp, int& rank_source, int& rank_dest) {
  const auto* grid = shape_of<Grid>(*comm);
  if (grid == nullptr) return no_topology(call, "Cartesian");
  if (direction < 0 || direction >= static_cast<int>(grid->dims.size())) {
    return call.fail(kErrDims, "direction is " + std::to_string(direction) + "; accepted: 0 to " +
                                   std::to_string(static_cast<int>(grid->dims.size()) - 1));
  }
  const auto at = [&](int step) {
    std::vector<int> coords = grid->coords;
    coords[static_cast<std::size_t>(direction)] += step;
    return grid->rank_at(std::move(coords));
  };
  rank_source = at(-disp);
  rank_dest = at(disp);
  return kSuccess;
}

int Cart_map(Call& call, Comm* comm, int ndims, const IntArray& dims, const IntArray& /*periods*/,
             int& newrank) {
  if (Checks checks(call); checks.array("dims", dims, ndims).failed()) {
    return checks.code();
  }
  Grid grid;
  grid.dims = list_of(dims, ndims);
  if (const int code = check_grid(call, *comm, ndims, grid.dims); code != kSuccess) return code;
  newrank = comm->rank < grid.size() ? comm->rank : kUndefined;
  return kSuccess;
}

int Dims_create(Call& call, int nnodes, int ndims, const OutInts& dims) {
  if (nnodes < 1 || ndims < 0) {
    return call.fail(kErrArg, "nnodes is " + std::to_string(nnodes) + ", ndims " +
                                  std::to_string(ndims) + "; accepted: 1 or more, 0 or more");
  }
  if (Checks checks(call); checks.array("dims", dims, ndims).failed()) {
    return checks.code();
  }
  std::vector<int> sizes;
  std::int64_t fixed = 1;
  for (int i = 0; i < ndims; ++i) {
    sizes.push_back(static_cast<int>(dims.get(static_cast<std::size_t>(i))));
    if (sizes.back() < 0) {
      return call.fail(kErrDims, "dims[" + std::to_string(i) + "] is " +
                                     std::to_string(sizes.back()) + "; accepted: 0 or more");
    }
    if (sizes.back() > 0) fixed = std::min<std::int64_t>(fixed * sizes.back(), 1LL << 32);
  }
  std::vector<int*> open;
  for (int& size : sizes) {
    if (size == 0) open.push_back(&size);
  }
  if (nnodes % fixed != 0 || (open.empty() && fixed != nnodes)) {
    return call.fail(kErrDims, "nnodes is " + std::to_string(nnodes) +
                                   ", which the given dims, whose product is " +
                                   std::to_string(fixed) + ", do not divide");
  }
  if (!open.empty()) fill_dims(static_cast<int>(nnodes / fixed), open);
  write(dims, sizes, ndims);
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi
