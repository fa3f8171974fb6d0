// Neighbour collectives, each in three forms: at once, with a request, and persistent.
#include "mpi/traffic/neighbours.h"
#include "mpi/calls.h"
#include "mpi/calls/checks.h"
#include "mpi/comms/topology.h"

namespace holdfast::mpi {
namespace {

struct Exchange {
  int code = kSuccess;
  std::shared_ptr<Script> script;
};

// Blocks one behind the other, at displacements in extents of the type, or anywhere.
struct Uniform {
  const void* at;
  std::int64_t count;
  Datatype* type;
};
struct Varied {
  const void* at;
  const IntArray& counts;
  const IntArray& displacements;
  Datatype* type;
};
struct Typed {
  const void* at;
  const IntArray& counts;
  const IntArray& displacements;
  const Handles<Datatype>& types;
};

std::byte* base_of(const void* at) { return static_cast<std::byte*>(const_cast<void*>(at)); }

int add(Call& call, const Uniform& side, std::size_t n, Parts* parts) {
  Checks checks(call);
  if (checks.count("count", side.count).type("a datatype", side.type).failed()) {
    return checks.code();
  }
  const std::int64_t step = side.count * side.type->layout.extent();
  for (std::size_t i = 0; i < n; ++i) {
    parts->push_back(
        {base_of(side.at) + static_cast<std::int64_t>(i) * step, side.count, side.type});
  }
  return kSuccess;
}

int add(Call& call, const Varied& side, std::size_t n, Parts* parts) {
  Checks checks(call);
  if (n == 0) return kSuccess;
  checks.type("a datatype", side.type);
  for (std::size_t i = 0; i < n; ++i) {
    if (checks.count("a count of the array", side.counts[i]).failed()) return checks.code();
    const std::int64_t offset = side.displacements[i] * side.type->layout.extent();
    parts->push_back({base_of(side.at) + offset, side.counts[i], side.type});
  }
  return kSuccess;
}

int add(Call& call, const Typed& side, std::size_t n, Parts* parts) {
  Checks checks(call);
  for (std::size_t i = 0; i < n; ++i) {
    bool valid = true;
    Datatype* type = side.types.get(i, &valid);
    checks.count("a count of the array", side.counts[i]);
    if (checks.type("a type of the array", valid ? type : nullptr).failed()) return checks.code();
    parts->push_back({base_of(side.at) + side.displacements[i], side.counts[i], type});
  }
  return kSuccess;
}

int check_topology(Call& call, const Comm& comm) {
  if (comm.topology) return kSuccess;
  return call.fail(kErrTopology,
                   "comm has no topology: MPI_Cart_create(), MPI_Graph_create() and "
                   "MPI_Dist_graph_create() make communicators that have one");
}

template <class Out, class In>
Exchange prepare(Call& call, const Out& send, bool gathers, const In& receive, Comm* comm) {
  Exchange exchange;
  exchange.code = check_topology(call, *comm);
  if (exchange.code != kSuccess) return exchange;
  const Neighbours neighbours = neighbours_of(*comm->topology, comm->rank);
  Parts input;
  Parts output;
  exchange.code = add(call, send, gathers ? 1 : neighbours.destinations.size(), &input);
  if (exchange.code == kSuccess) {
    exchange.code = add(call, receive, neighbours.sources.size(), &output);
  }
  if (exchange.code == kSuccess) exchange.script = neighbour_script(*comm, input, output);
  return exchange;
}

int now(Call& call, Exchange exchange) {
  Request* none = nullptr;
  if (exchange.code != kSuccess) return exchange.code;
  return run_script(call, std::move(exchange.script), Form::kNow, none);
}
int later(Call& call, Exchange exchange, Request*& request) {
  if (exchange.code != kSuccess) return exchange.code;
  return run_script(call, std::move(exchange.script), Form::kLater, request);
}
int again(Call& call, Exchange exchange, Request*& request) {
  if (exchange.code != kSuccess) return exchange.code;
  return run_script(call, std::move(exchange.script), Form::kPersistent, request);
}

}  // namespace

namespace body {

int Neighbor_allgather(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                       void* recvbuf, std::int64_t recvcount, Datatype* recvtype, Comm* comm) {
  return now(call, prepare(call, Uniform{sendbuf, sendcount, sendtype}, true,
                           Uniform{recvbuf, recvcount, recvtype}, comm));
}
int Ineighbor_allgather(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                        void* recvbuf, std::int64_t recvcount, Datatype* recvtype, Comm* comm,
                        Request*& request) {
  return later(call,
               prepare(call, Uniform{sendbuf, sendcount, sendtype}, true,
                       Uniform{recvbuf, recvcount, recvtype}, comm),
               request);
}
int Neighbor_allgather_init(Call& call, const void* sendbuf, std::int64_t sendcount,
                            Datatype* sendtype, void* recvbuf, std::int64_t recvcount,
                            Datatype* recvtype, Comm* comm, Info* /*info*/, Request*& request) {
  return again(call,
               prepare(call, Uniform{sendbuf, sendcount, sendtype}, true,
                       Uniform{recvbuf, recvcount, recvtype}, comm),
               request);
}
int Neighbor_allgatherv(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                        void* recvbuf, const IntArray& recvcounts, const IntArray& displs,
                        Datatype* recvtype, Comm* comm) {
  return now(call, prepare(call, Uniform{sendbuf, sendcount, sendtype}, true,
                           Varied{recvbuf, recvcounts, displs, recvtype}, comm));
}
int Ineighbor_allgatherv(Call& call, const void* sendbuf, std::int64_t sendcount,
                         Datatype* sendtype, void* recvbuf, const IntArray& recvcounts,
                         const IntArray& displs, Datatype* recvtype, Comm* comm,
                         Request*& request) {
  return later(call,
               prepare(call, Uniform{sendbuf, sendcount, sendtype}, true,
                       Varied{recvbuf, recvcounts, displs, recvtype}, comm),
               request);
}
int Neighbor_allgatherv_init(Call& call, const void* sendbuf, std::int64_t sendcount,
                             Datatype* sendtype, void* recvbuf, const IntArray& recvcounts,
                             const IntArray& displs, Datatype* recvtype, Comm* comm, Info* /*info*/,
                             Request*& request) {
  return again(call,
               prepare(call, Uniform{sendbuf, sendcount, sendtype}, true,
                       Varied{recvbuf, recvcounts, displs, recvtype}, comm),
               request);
}
int Neighbor_alltoall(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                      void* recvbuf, std::int64_t recvcount, Datatype* recvtype, Comm* comm) {
  return now(call, prepare(call, Uniform{sendbuf, sendcount, sendtype}, false,
                           Uniform{recvbuf, recvcount, recvtype}, comm));
}
int Ineighbor_alltoall(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                       void* recvbuf, std::int64_t recvcount, Datatype* recvtype, Comm* comm,
                       Request*& request) {
  return later(call,
               prepare(call, Uniform{sendbuf, sendcount, sendtype}, false,
                       Uniform{recvbuf, recvcount, recvtype}, comm),
               request);
}
int Neighbor_alltoall_init(Call& call, const void* sendbuf, std::int64_t sendcount,
                           Datatype* sendtype, void* recvbuf, std::int64_t recvcount,
                           Datatype* recvtype, Comm* comm, Info* /*info*/, Request*& request) {
  return again(call,
               prepare(call, Uniform{sendbuf, sendcount, sendtype}, false,
                       Uniform{recvbuf, recvcount, recvtype}, comm),
               request);
}
int Neighbor_alltoallv(Call& call, const void* sendbuf, const IntArray& sendcounts,
                       const IntArray& sdispls, Datatype* sendtype, void* recvbuf,
                       const IntArray& recvcounts, const IntArray& rdispls, Datatype* recvtype,
                       Comm* comm) {
  return now(call, prepare(call, Varied{sendbuf, sendcounts, sdispls, sendtype}, false,
                           Varied{recvbuf, recvcounts, rdispls, recvtype}, comm));
}
int Ineighbor_alltoallv(Call& call, const void* sendbuf, const IntArray& sendcounts,
                        const IntArray& sdispls, Datatype* sendtype, void* recvbuf,
                        const IntArray& recvcounts, const IntArray& rdispls, Datatype* recvtype,
                        Comm* comm, Request*& request) {
  return later(call,
               prepare(call, Varied{sendbuf, sendcounts, sdispls, sendtype}, false,
                       Varied{recvbuf, recvcounts, rdispls, recvtype}, comm),
               request);
}
int Neighbor_alltoallv_init(Call& call, const void* sendbuf, const IntArray& sendcounts,
                            const IntArray& sdispls, Datatype* sendtype, void* recvbuf,
                            const IntArray& recvcounts, const IntArray& rdispls, Datatype* recvtype,
                            Comm* comm, Info* /*info*/, Request*& request) {
  return again(call,
               prepare(call, Varied{sendbuf, sendcounts, sdispls, sendtype}, false,
                       Varied{recvbuf, recvcounts, rdispls, recvtype}, comm),
               request);
}
int Neighbor_alltoallw(Call& call, const void* sendbuf, const IntArray& sendcounts,
                       const IntArray& sdispls, const Handles<Datatype>& sendtypes, void* recvbuf,
                       const IntArray& recvcounts, const IntArray& rdispls,
                       const Handles<Datatype>& recvtypes, Comm* comm) {
  return now(call, prepare(call, Typed{sendbuf, sendcounts, sdispls, sendtypes}, false,
                           Typed{recvbuf, recvcounts, rdispls, recvtypes}, comm));
}
int Ineighbor_alltoallw(Call& call, const void* sendbuf, const IntArray& sendcounts,
                        const IntArray& sdispls, const Handles<Datatype>& sendtypes, void* recvbuf,
                        const IntArray& recvcounts, const IntArray& rdispls,
                        const Handles<Datatype>& recvtypes, Comm* comm, Request*& request) {
  return later(call,
               prepare(call, Typed{sendbuf, sendcounts, sdispls, sendtypes}, false,
                       Typed{recvbuf, recvcounts, rdispls, recvtypes}, comm),
               request);
}
int Neighbor_alltoallw_init(Call& call, const void* sendbuf, const IntArray& sendcounts,
                            const IntArray& sdispls, const Handles<Datatype>& sendtypes,
                            void* recvbuf, const IntArray& recvcounts, const IntArray& rdispls,
                            const Handles<Datatype>& recvtypes, Comm* comm, Info* /*info*/,
                            Request*& request) {
  return again(call,
               prepare(call, Typed{sendbuf, sendcounts, sdispls, sendtypes}, false,
                       Typed{recvbuf, recvcounts, rdispls, recvtypes}, comm),
               request);
}

}  // namespace body
}  // namespace holdfast::mpi
