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

struct Names {
  const char* buffer;
  const char* count;
  const char* type;
};
constexpr Names kSent{"sendbuf", "sendcount", "sendtype"};
constexpr Names kReceived{"recvbuf", "recvcount", "recvtype"};

int add(Call& call, const Uniform& side, const Names& names, std::size_t n, Parts* parts) {
  Checks checks(call);
  checks.count(names.count, side.count).type(names.type, side.type);
  if (n > 0) checks.buffer(names.buffer, side.at, side.count, side.type);
  if (checks.failed()) return checks.code();
  const std::int64_t step = side.count * side.type->layout.extent();
  for (std::size_t i = 0; i < n; ++i) {
    parts->push_back(
        {base_of(side.at) + static_cast<std::int64_t>(i) * step, side.count, side.type});
  }
  return kSuccess;
}

int add(Call& call, const Varied& side, const Names& names, std::size_t n, Parts* parts) {
  Checks checks(call);
  if (n == 0) return kSuccess;
  const auto many = static_cast<std::int64_t>(n);
  checks.type(names.type, side.type).array("the array of counts", side.counts, many);
  checks.array("the array of displacements", side.displacements, many);
  for (std::size_t i = 0; i < n && !checks.failed(); ++i) {
    checks.count(names.count, side.counts[i]);
    checks.buffer(names.buffer, side.at, side.counts[i], side.type);
    if (checks.failed()) break;
    const std::int64_t offset = side.displacements[i] * side.type->layout.extent();
    parts->push_back({base_of(side.at) + offset, side.counts[i], side.type});
  }
  return checks.code();
}

int add(Call& call, const Typed& side, const Names& names, std::size_t n, Parts* parts) {
  Checks checks(call);
  const auto many = static_cast<std::int64_t>(n);
  checks.array("the array of counts", side.counts, many);
  checks.array("the array of displacements", side.displacements, many);
  checks.array("the array of types", side.types, many);
  for (std::size_t i = 0; i < n && !checks.failed(); ++i) {
    if (side.counts[i] == 0) {  // where the type may be none
      parts->push_back({});
      continue;
    }
    bool valid = true;
    Datatype* type = side.types.get(i, &valid);
    checks.count(names.count, side.counts[i]).type(names.type, valid ? type : nullptr);
    if (checks.failed()) break;
    std::byte* const at = base_of(side.at) + side.displacements[i];
    if (checks.buffer(names.buffer, side.at == kInPlace ? kInPlace : at, side.counts[i], type)
            .failed())
      break;
    parts->push_back({at, side.counts[i], type});
  }
  return checks.code();
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
  exchange.code = add(call, send, kSent, gathers ? 1 : neighbours.destinations.size(), &input);
  if (exchange.code == kSuccess) {
    exchange.code = add(call, receive, kReceived, neighbours.sources.size(), &output);
  }
  if (exchange.code == kSuccess)
    exchange.script = neighbour_script(*comm, call.name(), input, output);
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
