// Sends, receives and probes.
#include <memory>

#include "mpi/calls.h"
#include "mpi/calls/checks.h"
#include "mpi/core/process.h"
#include "mpi/traffic/buffered.h"
#include "mpi/traffic/device_data.h"
#include "mpi/traffic/message.h"
#include "mpi/traffic/messages.h"
#include "mpi/traffic/wait_note.h"

namespace holdfast::mpi {
namespace {

// A wait goes on with scripts under way this often.
constexpr Duration kSliceOfProbe = std::chrono::milliseconds(2);

int check_send(Call& call, const SendData& data, const Route& route, const char* tag = "tag") {
  Checks checks(call);
  checks.count("count", data.count).type("datatype", data.type).dest(route.peer, *route.comm);
  return checks.tag(tag, route.tag).buffer("buf", data.at, data.count, data.type).code();
}

int check_receive(Call& call, const ReceiveData& data, const Route& route,
                  const char* tag = "tag") {
  Checks checks(call);
  checks.count("count", data.count).type("datatype", data.type).source(route.peer, *route.comm);
  checks.any_tag(tag, route.tag).buffer("buf", data.at, data.count, data.type);
  if (checks.failed()) return checks.code();
  return checks
      .that(!data.type->overlaps(data.count), kErrType,
            "datatype names some bytes twice; a receive must not")
      .code();
}

int end_wait(Call& call, Request& request, Status& status) {
  wait_for(request, call.name());
  Failure failure = outcome_of(request, status);
  return call.take(std::move(failure));
}

// A request on the stack of a blocking call: it borrows the communicator.
struct Borrowed {
  explicit Borrowed(Comm* comm) { request.comm = comm; }
  ~Borrowed() { request.comm = nullptr; }
  Request request;
};

int send_now(Call& call, const SendData& data, const Route& route, comm::SendMode mode) {
  if (const int code = check_send(call, data, route); code != kSuccess) return code;
  Borrowed borrowed(route.comm);
  begin_send(borrowed.request, data, route, mode);
  Status status;
  return end_wait(call, borrowed.request, status);
}

int send_later(Call& call, const SendData& data, const Route& route, comm::SendMode mode,
               Request*& request) {
  if (const int code = check_send(call, data, route); code != kSuccess) return code;
  request = new_request(route.comm);
  if (request == nullptr) return call.fail(kErrIntern, "there are too many requests");
  begin_send(*request, data, route, mode);
  return kSuccess;
}

int send_buffered(Call& call, const SendData& data, const Route& route) {
  if (const int code = check_send(call, data, route); code != kSuccess) return code;
  if (route.peer == kProcNull) return kSuccess;
  const auto pool = pool_of(*route.comm);
  if (!pool) {
    return call.fail(kErrBuffer, "no buffer is attached; MPI_Buffer_attach() attaches one");
  }
  return call.take(pool->send(data, route));
}

int check_probe(Call& call, const Route& route) {
  return Checks(call).source(route.peer, *route.comm).any_tag("tag", route.tag).code();
}

int failed_probe(Call& call, const holdfast::Status& status) {
  Failure failure = failure_of(status);
  return call.take(std::move(failure));
}

// Waits, and goes on with scripts meanwhile: `look` gives a Result of what is empty until there is
// a message.
template <class Look>
auto await(Call& call, const Route& route, Look look) {
  WaitNote note(call.name());
  for (;;) {
    auto found = look(kSliceOfProbe);
    if (!found.is_ok() || static_cast<bool>(found.value())) return found;
    note.look(route);
    process().scripts.advance();
  }
}

Message* new_message(Comm& comm, comm::MatchedMail mail) {
  auto* message = process().registry.make<Message>();
  if (message == nullptr) return nullptr;
  message->mail = mail;
  message->comm = Registry::use(&comm);
  return message;
}

}  // namespace

Message::~Message() { process().registry.drop(comm); }

namespace body {

int Send(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest, int tag,
         Comm* comm) {
  return send_now(call, {buf, count, datatype}, {comm, dest, tag}, comm::SendMode::kStandard);
}

int Ssend(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest, int tag,
          Comm* comm) {
  return send_now(call, {buf, count, datatype}, {comm, dest, tag}, comm::SendMode::kSynchronous);
}

int Rsend(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest, int tag,
          Comm* comm) {
  return send_now(call, {buf, count, datatype}, {comm, dest, tag}, comm::SendMode::kReady);
}

int Bsend(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest, int tag,
          Comm* comm) {
  return send_buffered(call, {buf, count, datatype}, {comm, dest, tag});
}

int Isend(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest, int tag,
          Comm* comm, Request*& request) {
  return send_later(call, {buf, count, datatype}, {comm, dest, tag}, comm::SendMode::kStandard,
                    request);
}

int Issend(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest, int tag,
           Comm* comm, Request*& request) {
  return send_later(call, {buf, count, datatype}, {comm, dest, tag}, comm::SendMode::kSynchronous,
                    request);
}

int Irsend(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest, int tag,
           Comm* comm, Request*& request) {
  return send_later(call, {buf, count, datatype}, {comm, dest, tag}, comm::SendMode::kReady,
                    request);
}

int Ibsend(Call& call, const void* buf, std::int64_t count, Datatype* datatype, int dest, int tag,
           Comm* comm, Request*& request) {
  const int code = send_buffered(call, {buf, count, datatype}, {comm, dest, tag});
  if (code != kSuccess) return code;
  request = new_request(comm);
  if (request == nullptr) return call.fail(kErrIntern, "there are too many requests");
  request->what = Request::What::kSend;
  request->buffered = true;
  return kSuccess;
}

int Recv(Call& call, void* buf, std::int64_t count, Datatype* datatype, int source, int tag,
         Comm* comm, const StatusOut& status) {
  const ReceiveData data{buf, count, datatype};
  const Route route{comm, source, tag};
  if (const int code = check_receive(call, data, route); code != kSuccess) return code;
  Borrowed borrowed(comm);
  begin_receive(borrowed.request, data, route);
  Status result;
  const int code = end_wait(call, borrowed.request, result);
  status.set(result);
  return code;
}

int Irecv(Call& call, void* buf, std::int64_t count, Datatype* datatype, int source, int tag,
          Comm* comm, Request*& request) {
  const ReceiveData data{buf, count, datatype};
  const Route route{comm, source, tag};
  if (const int code = check_receive(call, data, route); code != kSuccess) return code;
  request = new_request(comm);
  if (request == nullptr) return call.fail(kErrIntern, "there are too many requests");
  begin_receive(*request, data, route);
  return kSuccess;
}

int Sendrecv(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype, int dest,
             int sendtag, void* recvbuf, std::int64_t recvcount, Datatype* recvtype, int source,
             int recvtag, Comm* comm, const StatusOut& status) {
  const SendData out{sendbuf, sendcount, sendtype};
  const ReceiveData in{recvbuf, recvcount, recvtype};
  const Route to{comm, dest, sendtag};
  const Route from{comm, source, recvtag};
  if (const int code = check_send(call, out, to, "sendtag"); code != kSuccess) return code;
  if (const int code = check_receive(call, in, from, "recvtag"); code != kSuccess) return code;
  Borrowed receive(comm);
  Borrowed send(comm);
  begin_receive(receive.request, in, from);
  begin_send(send.request, out, to, comm::SendMode::kStandard);
  Status result;
  Status sent;
  Request* both[] = {&receive.request, &send.request};
  wait_for_all(both, call.name());
  const int code = end_wait(call, receive.request, result);
  status.set(result);
  const int sent_code = end_wait(call, send.request, sent);
  return code != kSuccess ? code : sent_code;
}

int Sendrecv_replace(Call& call, void* buf, std::int64_t count, Datatype* datatype, int dest,
                     int sendtag, int source, int recvtag, Comm* comm, const StatusOut& status) {
  const ReceiveData in{buf, count, datatype};
  const Route to{comm, dest, sendtag};
  const Route from{comm, source, recvtag};
  if (const int code = check_send(call, {buf, count, datatype}, to, "sendtag"); code != kSuccess) {
    return code;
  }
  if (const int code = check_receive(call, in, from, "recvtag"); code != kSuccess) return code;
  const std::uint64_t bytes = datatype->bytes_of(count);
  const auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);
  Failure packed = pack_elements(*datatype, count, buf, copy.get());
  if (packed.code != kSuccess) return call.take(std::move(packed));
  Borrowed receive(comm);
  Borrowed send(comm);
  begin_send(send.request, {copy.get(), static_cast<std::int64_t>(bytes), process().byte_type}, to,
             comm::SendMode::kStandard);
  begin_receive(receive.request, in, from);
  Status result;
  Status sent;
  const int code = end_wait(call, receive.request, result);
  status.set(result);
  const int sent_code = end_wait(call, send.request, sent);
  return code != kSuccess ? code : sent_code;
}

int Isendrecv(Call& call, const void* sendbuf, std::int64_t sendcount, Datatype* sendtype, int dest,
              int sendtag, void* recvbuf, std::int64_t recvcount, Datatype* recvtype, int source,
              int recvtag, Comm* comm, Request*& request) {
  const SendData out{sendbuf, sendcount, sendtype};
  const ReceiveData in{recvbuf, recvcount, recvtype};
  const Route to{comm, dest, sendtag};
  const Route from{comm, source, recvtag};
  if (const int code = check_send(call, out, to, "sendtag"); code != kSuccess) return code;
  if (const int code = check_receive(call, in, from, "recvtag"); code != kSuccess) return code;
  request = new_request(comm);
  if (request == nullptr) return call.fail(kErrIntern, "there are too many requests");
  request->other = std::make_unique<Request>();
  begin_receive(*request, in, from);
  begin_send(*request->other, out, to, comm::SendMode::kStandard);
  return kSuccess;
}

int Isendrecv_replace(Call& call, void* buf, std::int64_t count, Datatype* datatype, int dest,
                      int sendtag, int source, int recvtag, Comm* comm, Request*& request) {
  const ReceiveData in{buf, count, datatype};
  const Route to{comm, dest, sendtag};
  const Route from{comm, source, recvtag};
  if (const int code = check_send(call, {buf, count, datatype}, to, "sendtag"); code != kSuccess) {
    return code;
  }
  if (const int code = check_receive(call, in, from, "recvtag"); code != kSuccess) return code;
  const std::uint64_t bytes = datatype->bytes_of(count);
  auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);
  Failure packed = pack_elements(*datatype, count, buf, copy.get());
  if (packed.code != kSuccess) return call.take(std::move(packed));
  request = new_request(comm);
  if (request == nullptr) return call.fail(kErrIntern, "there are too many requests");
  request->copy = std::move(copy);
  request->other = std::make_unique<Request>();
  begin_send(*request->other,
             {request->copy.get(), static_cast<std::int64_t>(bytes), process().byte_type}, to,
             comm::SendMode::kStandard);
  begin_receive(*request, in, from);
  return kSuccess;
}

int Probe(Call& call, int source, int tag, Comm* comm, const StatusOut& status) {
  const Route route{comm, source, tag};
  if (const int code = check_probe(call, route); code != kSuccess) return code;
  if (source == kProcNull) {
    status.set(no_peer());
    return kSuccess;
  }
  comm::Mailbox& mailbox = process().mailbox();
  auto found = await(call, route,
                     [&](Duration slice) { return mailbox.wait_probe(pattern_of(route), slice); });
  if (!found.is_ok()) return failed_probe(call, found.status());
  status.set(status_of(*comm, *found.value()));
  return kSuccess;
}

int Iprobe(Call& call, int source, int tag, Comm* comm, bool& flag, const StatusOut& status) {
  const Route route{comm, source, tag};
  if (const int code = check_probe(call, route); code != kSuccess) return code;
  flag = source == kProcNull;
  if (flag) {
    status.set(no_peer());
    return kSuccess;
  }
  process().scripts.advance();
  auto found = process().mailbox().probe(pattern_of(route));
  if (!found.is_ok()) return failed_probe(call, found.status());
  flag = found.value().has_value();
  if (flag) status.set(status_of(*comm, *found.value()));
  return kSuccess;
}

int Mprobe(Call& call, int source, int tag, Comm* comm, Message*& message,
           const StatusOut& status) {
  const Route route{comm, source, tag};
  if (const int code = check_probe(call, route); code != kSuccess) return code;
  if (source == kProcNull) {
    message = process().no_message;
    status.set(no_peer());
    return kSuccess;
  }
  comm::Mailbox& mailbox = process().mailbox();
  auto found = await(call, route,
                     [&](Duration slice) { return mailbox.wait_match(pattern_of(route), slice); });
  if (!found.is_ok()) return failed_probe(call, found.status());
  status.set(status_of(*comm, found.value().envelope()));
  message = new_message(*comm, found.value());
  return message != nullptr ? kSuccess : call.fail(kErrIntern, "there are too many messages");
}

int Improbe(Call& call, int source, int tag, Comm* comm, bool& flag, Message*& message,
            const StatusOut& status) {
  const Route route{comm, source, tag};
  if (const int code = check_probe(call, route); code != kSuccess) return code;
  message = nullptr;
  flag = source == kProcNull;
  if (flag) {
    message = process().no_message;
    status.set(no_peer());
    return kSuccess;
  }
  process().scripts.advance();
  auto found = process().mailbox().match(pattern_of(route));
  if (!found.is_ok()) return failed_probe(call, found.status());
  flag = static_cast<bool>(found.value());
  if (!flag) return kSuccess;
  status.set(status_of(*comm, found.value().envelope()));
  message = new_message(*comm, found.value());
  return message != nullptr ? kSuccess : call.fail(kErrIntern, "there are too many messages");
}

int Mrecv(Call& call, void* buf, std::int64_t count, Datatype* datatype, Message*& message,
          const StatusOut& status) {
  Request* request = nullptr;
  const int begun = Imrecv(call, buf, count, datatype, message, request);
  if (begun != kSuccess) return begun;
  Status result;
  const int code = end_wait(call, *request, result);
  status.set(result);
  process().registry.drop(request);
  return code;
}

int Imrecv(Call& call, void* buf, std::int64_t count, Datatype* datatype, Message*& message,
           Request*& request) {
  Checks checks(call);
  checks.count("count", count).type("datatype", datatype).buffer("buf", buf, count, datatype);
  checks.apart("datatype", count, datatype);
  if (checks.failed()) return checks.code();
  request = new_request(message->comm);
  if (request == nullptr) return call.fail(kErrIntern, "there are too many requests");
  if (message == process().no_message) {
    request->nothing = no_peer();
  } else {
    begin_matched(*request, {buf, count, datatype}, message->mail);
    process().registry.drop(message);
  }
  message = nullptr;
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi
