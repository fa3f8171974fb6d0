// Messages: sends and receives of a program's data, from the arguments of a call to the mailbox.
#pragma once

#include <cstdint>

#include "comm/message/mailbox.h"
#include "mpi/traffic/request.h"

namespace holdfast::mpi {

// Memory of the program, as it is sent or filled.
struct SendData {
  const void* at;
  std::int64_t count;
  Datatype* type;
};
struct ReceiveData {
  void* at;
  std::int64_t count;
  Datatype* type;
};
// Who sends to whom, by ranks of the communicator.
struct Route {
  Comm* comm;
  int peer;                 // or kProcNull; of a receive: or kAnySource
  int tag;                  // of a receive: or kAnyTag
  std::uint32_t space = 0;  // added to the communicator's context
  comm::ContextId context() const;
};

// Begins it in `request`, which is kSend (kReceive) afterwards, or kNothing without a peer. The
// arguments have been checked.
void begin_send(Request& request, const SendData& data, const Route& route, comm::SendMode mode);
void begin_receive(Request& request, const ReceiveData& data, const Route& route);
// A receive of what a matched probe took.
void begin_matched(Request& request, const ReceiveData& data, comm::MatchedMail& message);

// The pattern of messages that a receive takes.
comm::MailPattern pattern_of(const Route& route);
// The status of a message that has been probed.
Status status_of(const Comm& comm, const comm::MailEnvelope& envelope);
// The status without a peer.
Status no_peer();

}  // namespace holdfast::mpi
