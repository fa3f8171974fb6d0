// Persistent sends and receives, and buffers for buffered sends.
#include "mpi/calls.h"
#include "mpi/calls/checks.h"
#include "mpi/core/process.h"
#include "mpi/core/session.h"
#include "mpi/traffic/buffered.h"
#include "mpi/traffic/messages.h"

namespace holdfast::mpi {
namespace {

int too_many(Call& call) { return call.fail(kErrIntern, "there are too many requests"); }

int init_send(Call& call, const SendData& data, const Route& route, comm::SendMode mode,
              Request*& request) {
  Checks checks(call);
  checks.count("count", data.count).type("datatype", data.type).dest(route.peer, *route.comm);
  checks.tag("tag", route.tag).buffer("buf", data.at, data.count, data.type);
  if (checks.failed()) return checks.code();
  request = new_persistent(route.comm, data.type);
  if (request == nullptr) return too_many(call);
  request->start = [data, route, mode](Request& self) {
    begin_send(self, data, route, mode);
    return Failure{};
  };
  return kSuccess;
}

Failure start_buffered(Request& request, const SendData& data, const Route& route) {
  request.what = Request::What::kSend;
  request.buffered = true;
  if (route.peer == kProcNull) return {};
  const auto pool = pool_of(*route.comm);
  if (pool) return pool->send(data, route);
  return {kErrBuffer, "no buffer is attached; MPI_Buffer_attach() attaches one"};
}

int start(Call& call, Request* request) {
  if (request == nullptr || !request->persistent) {
    return call.fail(kErrRequest, std::string("request is ") +
                                      (request == nullptr ? "MPI_REQUEST_NULL" : "another one") +
                                      "; accepted: a persistent one");
  }
  if (request->active) {
    return call.fail(kErrRequest, "request is active; a wait or test must end it first");
  }
  request->active = true;
  Failure failure = request->start(*request);
  if (failure.code == kSuccess) return kSuccess;
  request->active = false;
  return call.take(std::move(failure));
}

int attach(Call& call, std::shared_ptr<BufferPool>& pool, const void* buffer, std::int64_t size) {
  if (pool) {
    return call.fail(kErrBuffer, "a buffer of " + std::to_string(pool->size) +
                                     " bytes is attached already; detach it first");
  }
  if (size < 0) {
    return call.fail(kErrArg, "size is " + std::to_string(size) + "; accepted: 0 or more");
  }
  pool = std::make_shared<BufferPool>();
  pool->address = const_cast<void*>(buffer);
  pool->size = size;
  pool->automatic = buffer == kBufferAutomatic;
  return kSuccess;
}

int detach(Call& call, std::shared_ptr<BufferPool>& pool, void** address, std::int64_t& size) {
  if (!pool) return call.fail(kErrBuffer, "no buffer is attached");
  pool->flush();
  *address = pool->address;
  size = pool->automatic ? 0 : pool->size;
  pool = nullptr;
  return kSuccess;
}

int flush(const std::shared_ptr<BufferPool>& pool) {
  if (pool) pool->flush();
  return kSuccess;
}

int flush_later(Call& call, const std::shared_ptr<BufferPool>& pool, Comm* comm,
                Request*& request) {
  flush(pool);
  request = new_request(comm);
  return request != nullptr ? kSuccess : too_many(call);
}

}  // namespace

namespace body {

int Send_init(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest,
              int tag, Comm* comm, Request*& request) {
  return init_send(call, {buf, count, datatype}, {comm, dest, tag}, comm::SendMode::kStandard,
                   request);
}

int Ssend_init(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest,
               int tag, Comm* comm, Request*& request) {
  return init_send(call, {buf, count, datatype}, {comm, dest, tag}, comm::SendMode::kSynchronous,
                   request);
}

int Rsend_init(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest,
               int tag, Comm* comm, Request*& request) {
  return init_send(call, {buf, count, datatype}, {comm, dest, tag}, comm::SendMode::kReady,
                   request);
}

int Bsend_init(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest,
               int tag, Comm* comm, Request*& request) {
  const SendData data{buf, count, datatype};
  const Route route{comm, dest, tag};
  const int code = init_send(call, data, route, comm::SendMode::kStandard, request);
  if (code != kSuccess) return code;
  request->start = [data, route](Request& self) { return start_buffered(self, data, route); };
  return kSuccess;
}

int Recv_init(Call& call, void* buf, std::int64_t count, Datatype* datatype, int source, int tag,
              Comm* comm, Request*& request) {
  Checks checks(call);
  checks.count("count", count).type("datatype", datatype).source(source, *comm);
  checks.any_tag("tag", tag).buffer("buf", buf, count, datatype);
  checks.apart("datatype", count, datatype);
  if (checks.failed()) return checks.code();
  request = new_persistent(comm, datatype);
  if (request == nullptr) return too_many(call);
  const ReceiveData data{buf, count, datatype};
  const Route route{comm, source, tag};
  request->start = [data, route](Request& self) {
    begin_receive(self, data, route);
    return Failure{};
  };
  return kSuccess;
}

int Start(Call& call, Request*& request) { return start(call, request); }

int Startall(Call& call, int count, const Handles<Request>& array_of_requests) {
  if (count < 0) {
    return call.fail(kErrCount, "count is " + std::to_string(count) + "; accepted: 0 or more");
  }
  if (Checks checks(call); checks.array("array_of_requests", array_of_requests, count).failed()) {
    return checks.code();
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    bool valid = true;
    Request* request = array_of_requests.get(i, &valid);
    if (!valid) {
      return call.fail(kErrRequest, "array_of_requests[" + std::to_string(i) + "] is no request");
    }
    if (const int code = start(call, request); code != kSuccess) return code;
  }
  return kSuccess;
}

int Buffer_attach(Call& call, const void* buffer, std::int64_t size) {
  return attach(call, process().buffer, buffer, size);
}
int Buffer_detach(Call& call, void** buffer_addr, std::int64_t& size) {
  return detach(call, process().buffer, buffer_addr, size);
}
int Buffer_flush(Call&) { return flush(process().buffer); }
int Buffer_iflush(Call& call, Request*& request) {
  return flush_later(call, process().buffer, nullptr, request);
}
int Comm_attach_buffer(Call& call, Comm* comm, const void* buffer, std::int64_t size) {
  return attach(call, comm->buffer, buffer, size);
}
int Comm_detach_buffer(Call& call, Comm* comm, void** buffer_addr, std::int64_t& size) {
  return detach(call, comm->buffer, buffer_addr, size);
}
int Comm_flush_buffer(Call&, Comm* comm) { return flush(comm->buffer); }
int Comm_iflush_buffer(Call& call, Comm* comm, Request*& request) {
  return flush_later(call, comm->buffer, comm, request);
}
int Session_attach_buffer(Call& call, Session* session, const void* buffer, std::int64_t size) {
  return attach(call, session->buffer, buffer, size);
}
int Session_detach_buffer(Call& call, Session* session, void** buffer_addr, std::int64_t& size) {
  return detach(call, session->buffer, buffer_addr, size);
}
int Session_flush_buffer(Call&, Session* session) { return flush(session->buffer); }
int Session_iflush_buffer(Call& call, Session* session, Request*& request) {
  return flush_later(call, session->buffer, nullptr, request);
}

}  // namespace body
}  // namespace holdfast::mpi
