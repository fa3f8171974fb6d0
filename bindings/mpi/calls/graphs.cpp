// Communicators with a graph: one that all ranks know, or each its own part.
#include <algorithm>
#include <array>
#include <utility>

#include "mpi/calls.h"
#include "mpi/calls/with_topology.h"

namespace holdfast::mpi {
namespace {

int check_graph(Call& call, const Comm& comm, int nnodes, const std::vector<int>& index,
                const std::vector<int>& edges) {
  Checks checks(call);
  checks.intra(comm);
  checks.that(nnodes <= comm.size(), kErrTopology,
              "nnodes is " + std::to_string(nnodes) + ", and comm has " +
                  std::to_string(comm.size()) + " ranks");
  int before = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    checks.that(index[i] >= before, kErrTopology,
                "index[" + std::to_string(i) + "] is " + std::to_string(index[i]) +
                    ", less than the one before");
    before = index[i];
  }
  for (std::size_t i = 0; i < edges.size(); ++i) {
    checks.that(edges[i] >= 0 && edges[i] < nnodes, kErrTopology,
                "edges[" + std::to_string(i) + "] is " + std::to_string(edges[i]) +
                    "; accepted: 0 to " + std::to_string(nnodes - 1));
  }
  return checks.code();
}

// Who names whom as a neighbour: from every rank's list to every rank's neighbours.
struct Edge {
  std::int32_t source;
  std::int32_t destination;
  std::int32_t weight;
};

Failure gather_edges(Comm& comm, const std::vector<Edge>& own, std::vector<Edge>* all) {
  const auto size = static_cast<std::size_t>(comm.size());
  std::vector<std::int32_t> counts(size);
  std::int32_t count = static_cast<std::int32_t>(own.size());
  const auto gather = [&](std::byte* mine, std::uint64_t bytes, auto place) {
    Script script(comm);
    comm::OpRequest& request = script.add_step().op.emplace();
    request.collective = comm::Collective::kAllGather;
    request.dtype = DType::kU8;
    request.input = {comm::Block{mine, bytes}};
    for (std::size_t r = 0; r < size; ++r) request.output.push_back(place(r));
    script.begin();
    script.wait();
    return script.failure();
  };
  Failure failure = gather(reinterpret_cast<std::byte*>(&count), sizeof count, [&](std::size_t r) {
    return comm::Block{reinterpret_cast<std::byte*>(&counts[r]), sizeof count};
  });
  if (failure.code != kSuccess) return failure;
  std::size_t total = 0;
  for (const std::int32_t n : counts) total += static_cast<std::size_t>(n);
  all->resize(total);
  std::byte* at = reinterpret_cast<std::byte*>(all->data());
  auto* mine = reinterpret_cast<std::byte*>(const_cast<Edge*>(own.data()));
  return gather(mine, own.size() * sizeof(Edge), [&](std::size_t r) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(counts[r]) * sizeof(Edge);
    return comm::Block{std::exchange(at, at + bytes), bytes};
  });
}

bool are_weighted(const IntArray& weights) { return weights.address() != kUnweighted; }

std::vector<int> weights_of(const IntArray& weights, int count) {
  const bool given = are_weighted(weights) && weights.address() != kWeightsEmpty;
  return given ? list_of(weights, count) : std::vector<int>(static_cast<std::size_t>(count), 1);
}

}  // namespace

namespace body {

int Graph_create(Call& call, Comm* comm_old, int nnodes, const IntArray& index,
                 const IntArray& edges, bool /*reorder*/, Comm*& comm_graph) {
  if (Checks checks(call); checks.array("index", index, nnodes).failed()) {
    return checks.code();
  }
  if (nnodes < 0) {
    return call.fail(kErrArg, "nnodes is " + std::to_string(nnodes) + "; accepted: 0 or more");
  }
  Graph graph;
  graph.index = list_of(index, nnodes);
  if (nnodes > 0) graph.edges = list_of(edges, std::max(graph.index.back(), 0));
  const int code = check_graph(call, *comm_old, nnodes, graph.index, graph.edges);
  if (code != kSuccess) return code;
  const Topology topology{std::move(graph)};
  return make_with_topology(call, *comm_old, nnodes, &topology, comm_graph);
}

int Graphdims_get(Call& call, Comm* comm, int& nnodes, int& nedges) {
  const auto* graph = shape_of<Graph>(*comm);
  if (graph == nullptr) return no_topology(call, "graph");
  nnodes = static_cast<int>(graph->index.size());
  nedges = static_cast<int>(graph->edges.size());
  return kSuccess;
}

int Graph_get(Call& call, Comm* comm, int maxindex, int maxedges, const OutInts& index,
              const OutInts& edges) {
  const auto* graph = shape_of<Graph>(*comm);
  if (graph == nullptr) return no_topology(call, "graph");
  if (Checks checks(call);
      checks.array("index", index, maxindex).array("edges", edges, maxedges).failed()) {
    return checks.code();
  }
  write(index, graph->index, maxindex);
  write(edges, graph->edges, maxedges);
  return kSuccess;
}

int Graph_neighbors_count(Call& call, Comm* comm, int rank, int& nneighbors) {
  const auto* graph = shape_of<Graph>(*comm);
  if (graph == nullptr) return no_topology(call, "graph");
  if (const int code = check_ranks(call, *comm, "rank", {rank}); code != kSuccess) return code;
  nneighbors = static_cast<int>(graph->neighbours(rank).size());
  return kSuccess;
}

int Graph_neighbors(Call& call, Comm* comm, int rank, int maxneighbors, const OutInts& neighbors) {
  const auto* graph = shape_of<Graph>(*comm);
  if (graph == nullptr) return no_topology(call, "graph");
  if (const int code = check_ranks(call, *comm, "rank", {rank}); code != kSuccess) return code;
  if (Checks checks(call); checks.array("neighbors", neighbors, maxneighbors).failed()) {
    return checks.code();
  }
  write(neighbors, graph->neighbours(rank), maxneighbors);
  return kSuccess;
}

int Graph_map(Call& call, Comm* comm, int nnodes, const IntArray& index, const IntArray& edges,
              int& newrank) {
  if (Checks checks(call); checks.array("index", index, nnodes).failed()) {
    return checks.code();
  }
  const std::vector<int> ends = list_of(index, nnodes);
  if (Checks checks(call);
      checks.array("edges", edges, nnodes > 0 ? std::max(ends.back(), 0) : 0).failed()) {
    return checks.code();
  }
  const std::vector<int> all = list_of(edges, nnodes > 0 ? std::max(ends.back(), 0) : 0);
  const int code = check_graph(call, *comm, nnodes, ends, all);
  if (code != kSuccess) return code;
  newrank = comm->rank < nnodes ? comm->rank : kUndefined;
  return kSuccess;
}

int Dist_graph_create_adjacent(Call& call, Comm* comm_old, int indegree, const IntArray& sources,
                               const IntArray& sourceweights, int outdegree,
                               const IntArray& destinations, const IntArray& destweights,
                               Info* /*info*/, bool /*reorder*/, Comm*& comm_dist_graph) {
  if (indegree < 0 || outdegree < 0) {
    return call.fail(kErrArg, "indegree is " + std::to_string(indegree) + ", outdegree " +
                                  std::to_string(outdegree) + "; accepted: 0 or more");
  }
  if (Checks checks(call); checks.array("sources", sources, indegree)
                               .array("destinations", destinations, outdegree)
                               .failed()) {
    return checks.code();
  }
  Adjacency own;
  own.sources = list_of(sources, indegree);
  own.destinations = list_of(destinations, outdegree);
  own.weighted = are_weighted(sourceweights);
  own.source_weights = weights_of(sourceweights, indegree);
  own.destination_weights = weights_of(destweights, outdegree);
  if (Checks checks(call); checks.intra(*comm_old).failed()) return checks.code();
  int code = check_ranks(call, *comm_old, "sources", own.sources);
  if (code == kSuccess) code = check_ranks(call, *comm_old, "destinations", own.destinations);
  if (code != kSuccess) return code;
  const Topology topology{std::move(own)};
  return make_with_topology(call, *comm_old, comm_old->size(), &topology, comm_dist_graph);
}

int Dist_graph_create(Call& call, Comm* comm_old, int n, const IntArray& sources,
                      const IntArray& degrees, const IntArray& destinations,
                      const IntArray& weights, Info* /*info*/, bool /*reorder*/,
                      Comm*& comm_dist_graph) {
  if (Checks checks(call); checks.intra(*comm_old).failed()) return checks.code();
  if (Checks checks(call);
      checks.array("sources", sources, n).array("degrees", degrees, n).failed()) {
    return checks.code();
  }
  std::vector<Edge> mine;
  const std::vector<int> from = list_of(sources, n);
  int total = 0;
  for (const int degree : list_of(degrees, n)) {
    if (degree < 0) {
      return call.fail(kErrArg, "a degree is " + std::to_string(degree) + "; accepted: 0 or more");
    }
    total += degree;
  }
  if (Checks checks(call); checks.array("destinations", destinations, total).failed()) {
    return checks.code();
  }
  const std::vector<int> to = list_of(destinations, total);
  const std::vector<int> weight = weights_of(weights, total);
  int code = check_ranks(call, *comm_old, "sources", from);
  if (code == kSuccess) code = check_ranks(call, *comm_old, "destinations", to);
  if (code != kSuccess) return code;
  for (std::size_t i = 0; i < from.size(); ++i) {
    for (std::int64_t k = 0; k < degrees[i]; ++k) {
      mine.push_back({from[i], to[mine.size()], weight[mine.size()]});
    }
  }
  std::vector<Edge> all;
  if (Failure failure = gather_edges(*comm_old, mine, &all); failure.code != kSuccess) {
    return call.take(std::move(failure));
  }
  Adjacency own;
  own.weighted = are_weighted(weights);
  for (const Edge& edge : all) {
    if (edge.destination == comm_old->rank) {
      own.sources.push_back(edge.source);
      own.source_weights.push_back(edge.weight);
    }
    if (edge.source == comm_old->rank) {
      own.destinations.push_back(edge.destination);
      own.destination_weights.push_back(edge.weight);
    }
  }
  const Topology topology{std::move(own)};
  return make_with_topology(call, *comm_old, comm_old->size(), &topology, comm_dist_graph);
}

int Dist_graph_neighbors_count(Call& call, Comm* comm, int& indegree, int& outdegree,
                               bool& weighted) {
  const auto* own = shape_of<Adjacency>(*comm);
  if (own == nullptr) return no_topology(call, "distributed graph");
  indegree = static_cast<int>(own->sources.size());
  outdegree = static_cast<int>(own->destinations.size());
  weighted = own->weighted;
  return kSuccess;
}

int Dist_graph_neighbors(Call& call, Comm* comm, int maxindegree, const OutInts& sources,
                         const OutInts& sourceweights, int maxoutdegree,
                         const OutInts& destinations, const OutInts& destweights) {
  const auto* own = shape_of<Adjacency>(*comm);
  if (own == nullptr) return no_topology(call, "distributed graph");
  if (Checks checks(call); checks.array("sources", sources, maxindegree)
                               .array("destinations", destinations, maxoutdegree)
                               .failed()) {
    return checks.code();
  }
  write(sources, own->sources, maxindegree);
  write(destinations, own->destinations, maxoutdegree);
  if (!own->weighted) return kSuccess;
  const auto wanted = [](const OutInts& to) {
    return to.address() != kUnweighted && to.address() != kWeightsEmpty && !to.is_null();
  };
  if (wanted(sourceweights)) write(sourceweights, own->source_weights, maxindegree);
  if (wanted(destweights)) write(destweights, own->destination_weights, maxoutdegree);
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi
