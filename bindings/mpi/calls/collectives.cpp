// Collectives, each in three forms: at once, with a request, and persistent.
#include "mpi/calls.h"
#include "mpi/calls/prepare.h"

namespace holdfast::mpi {
namespace {

using comm::Collective;

int now(Call& call, const Prepared& prepared) {
  return prepared.code != kSuccess ? prepared.code : perform(call, prepared.asked);
}
int later(Call& call, const Prepared& prepared, Request*& request) {
  if (prepared.code != kSuccess) return prepared.code;
  return perform(call, prepared.asked, Form::kLater, request);
}
int again(Call& call, const Prepared& prepared, Request*& request) {
  if (prepared.code != kSuccess) return prepared.code;
  return perform(call, prepared.asked, Form::kPersistent, request);
}

}  // namespace

namespace body {

int Barrier(Call& call, Comm* comm) { return now(call, barrier(call, comm)); }
int Ibarrier(Call& call, Comm* comm, Request*& request) {
  return later(call, barrier(call, comm), request);
}
int Barrier_init(Call& call, Comm* comm, Info* /*info*/, Request*& request) {
  return again(call, barrier(call, comm), request);
}
int Bcast(Call& call, void* buffer, std::int64_t count, Datatype* datatype, int root, Comm* comm) {
  return now(call, bcast(call, {buffer, count, datatype}, root, comm));
}
int Ibcast(Call& call, void* buffer, std::int64_t count, Datatype* datatype, int root, Comm* comm,
           Request*& request) {
  return later(call, bcast(call, {buffer, count, datatype}, root, comm), request);
}
int Bcast_init(Call& call, void* buffer, std::int64_t count, Datatype* datatype, int root,
               Comm* comm, Info* /*info*/, Request*& request) {
  return again(call, bcast(call, {buffer, count, datatype}, root, comm), request);
}
int Gather(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
           void* recvbuf, std::int64_t recvcount, Datatype* recvtype, int root, Comm* comm) {
  return now(call, gather(call, {sendbuf, sendcount, sendtype}, Side{recvbuf, recvcount, recvtype},
                          true, root, comm));
}
int Igather(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
            void* recvbuf, std::int64_t recvcount, Datatype* recvtype, int root, Comm* comm,
            Request*& request) {
  return later(call,
               gather(call, {sendbuf, sendcount, sendtype}, Side{recvbuf, recvcount, recvtype},
                      true, root, comm),
               request);
}
int Gather_init(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                void* recvbuf, std::int64_t recvcount, Datatype* recvtype, int root, Comm* comm,
                Info* /*info*/, Request*& request) {
  return again(call,
               gather(call, {sendbuf, sendcount, sendtype}, Side{recvbuf, recvcount, recvtype},
                      true, root, comm),
               request);
}
int Gatherv(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
            void* recvbuf, const IntArray& recvcounts, const IntArray& displs, Datatype* recvtype,
            int root, Comm* comm) {
  return now(call, gather(call, {sendbuf, sendcount, sendtype},
                          VSide{recvbuf, recvcounts, displs, recvtype}, false, root, comm));
}
int Igatherv(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
             void* recvbuf, const IntArray& recvcounts, const IntArray& displs, Datatype* recvtype,
             int root, Comm* comm, Request*& request) {
  return later(call,
               gather(call, {sendbuf, sendcount, sendtype},
                      VSide{recvbuf, recvcounts, displs, recvtype}, false, root, comm),
               request);
}
int Gatherv_init(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                 void* recvbuf, const IntArray& recvcounts, const IntArray& displs,
                 Datatype* recvtype, int root, Comm* comm, Info* /*info*/, Request*& request) {
  return again(call,
               gather(call, {sendbuf, sendcount, sendtype},
                      VSide{recvbuf, recvcounts, displs, recvtype}, false, root, comm),
               request);
}
int Scatter(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
            void* recvbuf, std::int64_t recvcount, Datatype* recvtype, int root, Comm* comm) {
  return now(call, scatter(call, Side{sendbuf, sendcount, sendtype}, {recvbuf, recvcount, recvtype},
                           true, root, comm));
}
int Iscatter(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
             void* recvbuf, std::int64_t recvcount, Datatype* recvtype, int root, Comm* comm,
             Request*& request) {
  return later(call,
               scatter(call, Side{sendbuf, sendcount, sendtype}, {recvbuf, recvcount, recvtype},
                       true, root, comm),
               request);
}
int Scatter_init(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                 void* recvbuf, std::int64_t recvcount, Datatype* recvtype, int root, Comm* comm,
                 Info* /*info*/, Request*& request) {
  return again(call,
               scatter(call, Side{sendbuf, sendcount, sendtype}, {recvbuf, recvcount, recvtype},
                       true, root, comm),
               request);
}
int Scatterv(Call& call, const void* sendbuf, const IntArray& sendcounts, const IntArray& displs,
             Datatype* sendtype, void* recvbuf, std::int64_t recvcount, Datatype* recvtype,
             int root, Comm* comm) {
  return now(call, scatter(call, VSide{sendbuf, sendcounts, displs, sendtype},
                           {recvbuf, recvcount, recvtype}, false, root, comm));
}
int Iscatterv(Call& call, const void* sendbuf, const IntArray& sendcounts, const IntArray& displs,
              Datatype* sendtype, void* recvbuf, std::int64_t recvcount, Datatype* recvtype,
              int root, Comm* comm, Request*& request) {
  return later(call,
               scatter(call, VSide{sendbuf, sendcounts, displs, sendtype},
                       {recvbuf, recvcount, recvtype}, false, root, comm),
               request);
}
int Scatterv_init(Call& call, const void* sendbuf, const IntArray& sendcounts,
                  const IntArray& displs, Datatype* sendtype, void* recvbuf, std::int64_t recvcount,
                  Datatype* recvtype, int root, Comm* comm, Info* /*info*/, Request*& request) {
  return again(call,
               scatter(call, VSide{sendbuf, sendcounts, displs, sendtype},
                       {recvbuf, recvcount, recvtype}, false, root, comm),
               request);
}
int Allgather(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
              void* recvbuf, std::int64_t recvcount, Datatype* recvtype, Comm* comm) {
  return now(call, all_gather(call, {sendbuf, sendcount, sendtype},
                              Side{recvbuf, recvcount, recvtype}, true, comm));
}
int Iallgather(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
               void* recvbuf, std::int64_t recvcount, Datatype* recvtype, Comm* comm,
               Request*& request) {
  return later(call,
               all_gather(call, {sendbuf, sendcount, sendtype}, Side{recvbuf, recvcount, recvtype},
                          true, comm),
               request);
}
int Allgather_init(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                   void* recvbuf, std::int64_t recvcount, Datatype* recvtype, Comm* comm,
                   Info* /*info*/, Request*& request) {
  return again(call,
               all_gather(call, {sendbuf, sendcount, sendtype}, Side{recvbuf, recvcount, recvtype},
                          true, comm),
               request);
}
int Allgatherv(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
               void* recvbuf, const IntArray& recvcounts, const IntArray& displs,
               Datatype* recvtype, Comm* comm) {
  return now(call, all_gather(call, {sendbuf, sendcount, sendtype},
                              VSide{recvbuf, recvcounts, displs, recvtype}, false, comm));
}
int Iallgatherv(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                void* recvbuf, const IntArray& recvcounts, const IntArray& displs,
                Datatype* recvtype, Comm* comm, Request*& request) {
  return later(call,
               all_gather(call, {sendbuf, sendcount, sendtype},
                          VSide{recvbuf, recvcounts, displs, recvtype}, false, comm),
               request);
}
int Allgatherv_init(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                    void* recvbuf, const IntArray& recvcounts, const IntArray& displs,
                    Datatype* recvtype, Comm* comm, Info* /*info*/, Request*& request) {
  return again(call,
               all_gather(call, {sendbuf, sendcount, sendtype},
                          VSide{recvbuf, recvcounts, displs, recvtype}, false, comm),
               request);
}
int Alltoall(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
             void* recvbuf, std::int64_t recvcount, Datatype* recvtype, Comm* comm) {
  return now(call, all_to_all(call, Side{sendbuf, sendcount, sendtype},
                              Side{recvbuf, recvcount, recvtype}, true, comm));
}
int Ialltoall(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
              void* recvbuf, std::int64_t recvcount, Datatype* recvtype, Comm* comm,
              Request*& request) {
  return later(call,
               all_to_all(call, Side{sendbuf, sendcount, sendtype},
                          Side{recvbuf, recvcount, recvtype}, true, comm),
               request);
}
int Alltoall_init(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype,
                  void* recvbuf, std::int64_t recvcount, Datatype* recvtype, Comm* comm,
                  Info* /*info*/, Request*& request) {
  return again(call,
               all_to_all(call, Side{sendbuf, sendcount, sendtype},
                          Side{recvbuf, recvcount, recvtype}, true, comm),
               request);
}
int Alltoallv(Call& call, const void* sendbuf, const IntArray& sendcounts, const IntArray& sdispls,
              Datatype* sendtype, void* recvbuf, const IntArray& recvcounts,
              const IntArray& rdispls, Datatype* recvtype, Comm* comm) {
  return now(call, all_to_all(call, VSide{sendbuf, sendcounts, sdispls, sendtype},
                              VSide{recvbuf, recvcounts, rdispls, recvtype}, false, comm));
}
int Ialltoallv(Call& call, const void* sendbuf, const IntArray& sendcounts, const IntArray& sdispls,
               Datatype* sendtype, void* recvbuf, const IntArray& recvcounts,
               const IntArray& rdispls, Datatype* recvtype, Comm* comm, Request*& request) {
  return later(call,
               all_to_all(call, VSide{sendbuf, sendcounts, sdispls, sendtype},
                          VSide{recvbuf, recvcounts, rdispls, recvtype}, false, comm),
               request);
}
int Alltoallv_init(Call& call, const void* sendbuf, const IntArray& sendcounts,
                   const IntArray& sdispls, Datatype* sendtype, void* recvbuf,
                   const IntArray& recvcounts, const IntArray& rdispls, Datatype* recvtype,
                   Comm* comm, Info* /*info*/, Request*& request) {
  return again(call,
               all_to_all(call, VSide{sendbuf, sendcounts, sdispls, sendtype},
                          VSide{recvbuf, recvcounts, rdispls, recvtype}, false, comm),
               request);
}
int Alltoallw(Call& call, const void* sendbuf, const IntArray& sendcounts, const IntArray& sdispls,
              const Handles<Datatype>& sendtypes, void* recvbuf, const IntArray& recvcounts,
              const IntArray& rdispls, const Handles<Datatype>& recvtypes, Comm* comm) {
  return now(call, all_to_all_w(call, {sendbuf, sendcounts, sdispls, sendtypes},
                                {recvbuf, recvcounts, rdispls, recvtypes}, comm));
}
int Ialltoallw(Call& call, const void* sendbuf, const IntArray& sendcounts, const IntArray& sdispls,
               const Handles<Datatype>& sendtypes, void* recvbuf, const IntArray& recvcounts,
               const IntArray& rdispls, const Handles<Datatype>& recvtypes, Comm* comm,
               Request*& request) {
  return later(call,
               all_to_all_w(call, {sendbuf, sendcounts, sdispls, sendtypes},
                            {recvbuf, recvcounts, rdispls, recvtypes}, comm),
               request);
}
int Alltoallw_init(Call& call, const void* sendbuf, const IntArray& sendcounts,
                   const IntArray& sdispls, const Handles<Datatype>& sendtypes, void* recvbuf,
                   const IntArray& recvcounts, const IntArray& rdispls,
                   const Handles<Datatype>& recvtypes, Comm* comm, Info* /*info*/,
                   Request*& request) {
  return again(call,
               all_to_all_w(call, {sendbuf, sendcounts, sdispls, sendtypes},
                            {recvbuf, recvcounts, rdispls, recvtypes}, comm),
               request);
}
int Allreduce(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count,
              Datatype* datatype, Op* op, Comm* comm) {
  return now(call, all_reduce(call, {sendbuf, recvbuf, count, datatype, op}, comm));
}
int Iallreduce(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count,
               Datatype* datatype, Op* op, Comm* comm, Request*& request) {
  return later(call, all_reduce(call, {sendbuf, recvbuf, count, datatype, op}, comm), request);
}
int Allreduce_init(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count,
                   Datatype* datatype, Op* op, Comm* comm, Info* /*info*/, Request*& request) {
  return again(call, all_reduce(call, {sendbuf, recvbuf, count, datatype, op}, comm), request);
}
int Reduce(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count, Datatype* datatype,
           Op* op, int root, Comm* comm) {
  return now(call, reduce(call, {sendbuf, recvbuf, count, datatype, op}, root, comm));
}
int Ireduce(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count, Datatype* datatype,
            Op* op, int root, Comm* comm, Request*& request) {
  return later(call, reduce(call, {sendbuf, recvbuf, count, datatype, op}, root, comm), request);
}
int Reduce_init(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count,
                Datatype* datatype, Op* op, int root, Comm* comm, Info* /*info*/,
                Request*& request) {
  return again(call, reduce(call, {sendbuf, recvbuf, count, datatype, op}, root, comm), request);
}
int Reduce_scatter(Call& call, const void* sendbuf, void* recvbuf, const IntArray& recvcounts,
                   Datatype* datatype, Op* op, Comm* comm) {
  return now(call, reduce_scatter(call, {sendbuf, recvbuf, 0, datatype, op}, &recvcounts, comm));
}
int Ireduce_scatter(Call& call, const void* sendbuf, void* recvbuf, const IntArray& recvcounts,
                    Datatype* datatype, Op* op, Comm* comm, Request*& request) {
  return later(call, reduce_scatter(call, {sendbuf, recvbuf, 0, datatype, op}, &recvcounts, comm),
               request);
}
int Reduce_scatter_init(Call& call, const void* sendbuf, void* recvbuf, const IntArray& recvcounts,
                        Datatype* datatype, Op* op, Comm* comm, Info* /*info*/, Request*& request) {
  return again(call, reduce_scatter(call, {sendbuf, recvbuf, 0, datatype, op}, &recvcounts, comm),
               request);
}
int Reduce_scatter_block(Call& call, const void* sendbuf, void* recvbuf, std::int64_t recvcount,
                         Datatype* datatype, Op* op, Comm* comm) {
  return now(call,
             reduce_scatter(call, {sendbuf, recvbuf, recvcount, datatype, op}, nullptr, comm));
}
int Ireduce_scatter_block(Call& call, const void* sendbuf, void* recvbuf, std::int64_t recvcount,
                          Datatype* datatype, Op* op, Comm* comm, Request*& request) {
  return later(call,
               reduce_scatter(call, {sendbuf, recvbuf, recvcount, datatype, op}, nullptr, comm),
               request);
}
int Reduce_scatter_block_init(Call& call, const void* sendbuf, void* recvbuf,
                              std::int64_t recvcount, Datatype* datatype, Op* op, Comm* comm,
                              Info* /*info*/, Request*& request) {
  return again(call,
               reduce_scatter(call, {sendbuf, recvbuf, recvcount, datatype, op}, nullptr, comm),
               request);
}
int Scan(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count, Datatype* datatype,
         Op* op, Comm* comm) {
  return now(call, scan(call, Collective::kScan, {sendbuf, recvbuf, count, datatype, op}, comm));
}
int Iscan(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count, Datatype* datatype,
          Op* op, Comm* comm, Request*& request) {
  return later(call, scan(call, Collective::kScan, {sendbuf, recvbuf, count, datatype, op}, comm),
               request);
}
int Scan_init(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count,
              Datatype* datatype, Op* op, Comm* comm, Info* /*info*/, Request*& request) {
  return again(call, scan(call, Collective::kScan, {sendbuf, recvbuf, count, datatype, op}, comm),
               request);
}
int Exscan(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count, Datatype* datatype,
           Op* op, Comm* comm) {
  return now(call, scan(call, Collective::kExscan, {sendbuf, recvbuf, count, datatype, op}, comm));
}
int Iexscan(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count, Datatype* datatype,
            Op* op, Comm* comm, Request*& request) {
  return later(call, scan(call, Collective::kExscan, {sendbuf, recvbuf, count, datatype, op}, comm),
               request);
}
int Exscan_init(Call& call, const void* sendbuf, void* recvbuf, std::int64_t count,
                Datatype* datatype, Op* op, Comm* comm, Info* /*info*/, Request*& request) {
  return again(call, scan(call, Collective::kExscan, {sendbuf, recvbuf, count, datatype, op}, comm),
               request);
}

}  // namespace body
}  // namespace holdfast::mpi
