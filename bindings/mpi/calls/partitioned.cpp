// Partitioned sends and receives: MPI-4.1, 4.2.
#include "mpi/calls.h"
#include "mpi/calls/checks.h"
#include "mpi/calls/made.h"
#include "mpi/comms/make_comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/messages.h"

namespace holdfast::mpi {
namespace {

// Makes an inactive request; of no message yet.
int make(Call& call, int partitions, const Route& route, Datatype* type, Request*& request) {
  if (partitions < 1) {
    return call.fail(kErrArg,
                     "partitions is " + std::to_string(partitions) + "; accepted: 1 or more");
  }
  if (Failure failure = open_for_partitions(*route.comm); failure.code != kSuccess) {
    return call.take(std::move(failure));
  }
  Request* made = new_persistent(route.comm, type);
  if (made == nullptr) return give_made<Request>(call, nullptr, "requests", request);
  made->partitions = std::make_unique<Partitions>(partitions);
  made->partitions->tag = route.tag;
  request = made;
  return kSuccess;
}

Route data_route(const Partitions& parts, const Route& route) {
  return {route.comm, route.peer, parts.number, Comm::kPartitionsSpace};
}

int make_ready(Call& call, Request* request, int low, int high) {
  if (request == nullptr || !request->partitions || !request->partitions->sends) {
    return call.fail(kErrRequest, "request is not one of MPI_Psend_init()");
  }
  if (!request->active) return call.fail(kErrRequest, "request has not been started");
  Partitions& parts = *request->partitions;
  if (low < 0 || high >= parts.count || low > high) {
    return call.fail(kErrArg, "partitions " + std::to_string(low) + " to " + std::to_string(high) +
                                  " are not all of 0 to " + std::to_string(parts.count - 1));
  }
  for (int i = low; i <= high; ++i) {
    if (parts.ready[static_cast<std::size_t>(i)].exchange(true, std::memory_order_acq_rel)) {
      return call.fail(kErrArg, "partition " + std::to_string(i) + " is ready already");
    }
    if (parts.missing.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    parts.begin(*request);
    parts.under_way.store(true, std::memory_order_release);
  }
  return kSuccess;
}

}  // namespace

namespace body {

int Psend_init(Call& call, const void* buf, int partitions, std::int64_t count, Datatype* datatype,
               int dest, int tag, Comm* comm, Info* /*info*/, Request*& request) {
  Checks checks(call);
  checks.count("count", count).type("datatype", datatype).dest(dest, *comm).tag("tag", tag);
  if (checks.failed()) return checks.code();
  const Route route{comm, dest, tag};
  const int code = make(call, partitions, route, datatype, request);
  if (code != kSuccess) return code;
  Partitions& parts = *request->partitions;
  parts.sends = true;
  if (dest != kProcNull) send_meeting(parts, route);
  const SendData data{buf, count * partitions, datatype};
  parts.begin = [data, route](Request& self) {
    begin_send(self, data, data_route(*self.partitions, route), comm::SendMode::kStandard);
  };
  request->start = [](Request& self) {
    Partitions& own = *self.partitions;
    for (int i = 0; i < own.count; ++i) own.ready[static_cast<std::size_t>(i)] = false;
    own.under_way = false;
    own.missing.store(own.count, std::memory_order_release);
    self.what = Request::What::kSend;
    return Failure{};
  };
  return kSuccess;
}

int Precv_init(Call& call, void* buf, int partitions, std::int64_t count, Datatype* datatype,
               int source, int tag, Comm* comm, Info* /*info*/, Request*& request) {
  Checks checks(call);
  checks.count("count", count).type("datatype", datatype).source(source, *comm).tag("tag", tag);
  checks.that(source != kAnySource, kErrRank,
              "source is MPI_ANY_SOURCE; accepted with partitions: a rank, or MPI_PROC_NULL");
  checks.apart("datatype", count, datatype);
  if (checks.failed()) return checks.code();
  const Route route{comm, source, tag};
  const int code = make(call, partitions, route, datatype, request);
  if (code != kSuccess) return code;
  Partitions& parts = *request->partitions;
  if (source != kProcNull) receive_meeting(parts, route);
  const ReceiveData data{buf, count * partitions, datatype};
  parts.begin = [data, route](Request& self) {
    begin_receive(self, data, data_route(*self.partitions, route));
  };
  request->start = [](Request& self) {
    self.what = Request::What::kReceive;
    self.partitions->under_way = false;
    static_cast<void>(is_under_way(self));
    return Failure{};
  };
  return kSuccess;
}

int Pready(Call& call, int partition, Request* request) {
  return make_ready(call, request, partition, partition);
}

int Pready_range(Call& call, int partition_low, int partition_high, Request* request) {
  return make_ready(call, request, partition_low, partition_high);
}

int Pready_list(Call& call, int length, const IntArray& array_of_partitions, Request* request) {
  for (int i = 0; i < length; ++i) {
    const int partition = static_cast<int>(array_of_partitions[static_cast<std::size_t>(i)]);
    if (const int code = make_ready(call, request, partition, partition); code != kSuccess) {
      return code;
    }
  }
  return kSuccess;
}

int Parrived(Call& call, Request* request, int partition, bool& flag) {
  if (request == nullptr || !request->partitions || request->partitions->sends) {
    return call.fail(kErrRequest, "request is not one of MPI_Precv_init()");
  }
  if (partition < 0 || partition >= request->partitions->count) {
    return call.fail(kErrArg, "partition is " + std::to_string(partition) + "; accepted: 0 to " +
                                  std::to_string(request->partitions->count - 1));
  }
  flag = is_done(*request);
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi
