// Message: what a matched probe has taken, for one receive.
#pragma once

#include "comm/message/mailbox.h"
#include "mpi/core/object.h"

namespace holdfast::mpi {

struct Comm;

struct Message : Object {
  static constexpr Kind kKind = Kind::kMessage;
  Message() : Object(kKind) {}
  ~Message();

  comm::MatchedMail mail;
  Comm* comm = nullptr;  // a use of its own; null: MPI_MESSAGE_NO_PROC
};

}  // namespace holdfast::mpi
