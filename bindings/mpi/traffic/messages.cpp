#include "mpi/traffic/messages.h"

#include <optional>
#include <utility>

#include "mpi/comms/comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/device_data.h"
#include "mpi/traffic/packed.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {
namespace {

const std::byte* first_byte(const SendData& data) {
  return static_cast<const std::byte*>(data.at) + data.type->layout.true_lb();
}

// Null where it cannot begin: the request is refused.
std::optional<comm::MailPayload> payload_on(int device, Request& request, const SendData& data) {
  auto reader = reader_of(device, *data.type, data.count, data.at);
  if (!reader.is_ok()) {
    request.refused = failure_of(reader.status());
    return std::nullopt;
  }
  request.device_source = std::make_unique<DeviceSource>(std::move(reader).value());
  return comm::MailPayload{nullptr, 0, request.device_source.get()};
}

std::optional<comm::MailRoom> room_on(int device, Request& request, const ReceiveData& data) {
  auto writer = writer_of(device, *data.type, data.count, data.at);
  if (!writer.is_ok()) {
    request.refused = failure_of(writer.status());
    return std::nullopt;
  }
  request.device_sink = std::make_unique<DeviceSink>(std::move(writer).value());
  return comm::MailRoom{nullptr, 0, request.device_sink.get()};
}

std::optional<comm::MailPayload> payload_of(Request& request, const SendData& data) {
  if (const auto device = device_of(*data.type, data.count, data.at)) {
    return payload_on(*device, request, data);
  }
  request.device_source = nullptr;
  if (data.type->layout.is_dense(data.count)) {
    return comm::MailPayload{first_byte(data), data.type->bytes_of(data.count), nullptr};
  }
  request.source = std::make_unique<PackedSource>(data.type->packer(data.count),
                                                  static_cast<const std::byte*>(data.at));
  return comm::MailPayload{nullptr, 0, request.source.get()};
}

std::optional<comm::MailRoom> room_of(Request& request, const ReceiveData& data) {
  if (const auto device = device_of(*data.type, data.count, data.at)) {
    return room_on(*device, request, data);
  }
  request.device_sink = nullptr;
  if (data.type->layout.is_dense(data.count)) {
    auto* at = static_cast<std::byte*>(data.at) + data.type->layout.true_lb();
    return comm::MailRoom{at, data.type->bytes_of(data.count), nullptr};
  }
  request.sink =
      std::make_unique<PackedSink>(data.type->packer(data.count), static_cast<std::byte*>(data.at));
  return comm::MailRoom{nullptr, 0, request.sink.get()};
}

void go_nowhere(Request& request) {
  request.what = Request::What::kNothing;
  request.nothing = no_peer();
}

}  // namespace

comm::ContextId Route::context() const { return comm::ContextId{comm->context + space}; }

void begin_send(Request& request, const SendData& data, const Route& route, comm::SendMode mode) {
  request.refused.code = kSuccess;
  if (route.peer == kProcNull) return go_nowhere(request);
  const auto payload = payload_of(request, data);
  if (!payload) return go_nowhere(request);
  request.what = Request::What::kSend;
  const Rank dest{route.comm->peers().process(route.peer)};
  process().mailbox().send(request.mail, {route.context(), dest, route.tag, mode, *payload});
}

void begin_receive(Request& request, const ReceiveData& data, const Route& route) {
  request.refused.code = kSuccess;
  if (route.peer == kProcNull) return go_nowhere(request);
  const auto room = room_of(request, data);
  if (!room) return go_nowhere(request);
  request.what = Request::What::kReceive;
  process().mailbox().receive(request.mail, pattern_of(route), *room);
}

void begin_matched(Request& request, const ReceiveData& data, comm::MatchedMail& message) {
  request.what = Request::What::kReceive;
  // Where it is refused, the message goes nowhere.
  const auto room = room_of(request, data);
  process().mailbox().receive_matched(request.mail, message, room.value_or(comm::MailRoom{}));
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
