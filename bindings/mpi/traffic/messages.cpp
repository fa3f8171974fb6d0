#include "mpi/traffic/messages.h"

#include "mpi/comms/comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/packed.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {
namespace {

const std::byte* first_byte(const SendData& data) {
  return static_cast<const std::byte*>(data.at) + data.type->layout.true_lb();
}

comm::MailPayload payload_of(Request& request, const SendData& data) {
  if (data.type->layout.is_dense(data.count)) {
    return {first_byte(data), data.type->bytes_of(data.count), nullptr};
  }
  request.source = std::make_unique<PackedSource>(data.type->packer(data.count),
                                                  static_cast<const std::byte*>(data.at));
  return {nullptr, 0, request.source.get()};
}

comm::MailRoom room_of(Request& request, const ReceiveData& data) {
  if (data.type->layout.is_dense(data.count)) {
    auto* at = static_cast<std::byte*>(data.at) + data.type->layout.true_lb();
    return {at, data.type->bytes_of(data.count), nullptr};
  }
  request.sink =
      std::make_unique<PackedSink>(data.type->packer(data.count), static_cast<std::byte*>(data.at));
  return {nullptr, 0, request.sink.get()};
}

void go_nowhere(Request& request) {
  request.what = Request::What::kNothing;
  request.nothing = no_peer();
}

}  // namespace

comm::ContextId Route::context() const { return comm::ContextId{comm->context + space}; }

void begin_send(Request& request, const SendData& data, const Route& route, comm::SendMode mode) {
  if (route.peer == kProcNull) return go_nowhere(request);
  request.what = Request::What::kSend;
  const Rank dest{route.comm->peers().process(route.peer)};
  process().mailbox().send(request.mail,
                           {route.context(), dest, route.tag, mode, payload_of(request, data)});
}

void begin_receive(Request& request, const ReceiveData& data, const Route& route) {
  if (route.peer == kProcNull) return go_nowhere(request);
  request.what = Request::What::kReceive;
  process().mailbox().receive(request.mail, pattern_of(route), room_of(request, data));
}

void begin_matched(Request& request, const ReceiveData& data, comm::MatchedMail& message) {
  request.what = Request::What::kReceive;
  process().mailbox().receive_matched(request.mail, message, room_of(request, data));
}

comm::MailPattern pattern_of(const Route& route) {
  const bool any = route.peer == kAnySource;
  return {route.context(),
          any ? comm::kAnyMailSource : Rank{route.comm->peers().process(route.peer)},
          route.tag == kAnyTag ? comm::kAnyTag : route.tag};
}

Status status_of(const Comm& comm, const comm::MailEnvelope& envelope) {
  Status status;
  status.source = comm.peers().rank_of(envelope.source.value);
  status.tag = envelope.tag;
  status.bytes = static_cast<std::int64_t>(envelope.bytes);
  return status;
}

Status no_peer() {
  Status status;
  status.source = kProcNull;
  status.tag = kAnyTag;
  return status;
}

}  // namespace holdfast::mpi
