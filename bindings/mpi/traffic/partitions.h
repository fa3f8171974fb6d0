// Partitions: a message that several threads fill, each its parts; it leaves when all are ready. It
// matches by the order in which the two ends made their requests (MPI-4.1, 4.2), in whichever order
// these are started: so the sender says, when it makes its request, by which number it will send,
// and the receiver's request takes that.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "comm/message/mailbox.h"
#include "mpi/core/call.h"

namespace holdfast::mpi {

struct Request;
struct Route;

struct Partitions {
  explicit Partitions(int parts);
  ~Partitions();
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;

  const int count;
  std::atomic<int> missing{0};  // acq_rel: who makes the last one ready sends what others wrote
  std::unique_ptr<std::atomic<bool>[]> ready;
  bool sends = false;
  int tag = 0;  // the program's
  // Begins the message, once in each run.
  std::function<void(Request&)> begin;

  std::int32_t number = 0;  // the tag by which the data goes
  comm::MailRequest meeting;
  bool meets = false;  // `meeting` has begun

  std::mutex mutex;                    // held while a receive begins
  std::atomic<bool> under_way{false};  // release by who begins the message
};

// Meets the other end by a message in the communicator's meetings. Both: while the request is made.
void send_meeting(Partitions& parts, const Route& route);
void receive_meeting(Partitions& parts, const Route& route);

// Whether the message of an active request has begun; begins one that can. Any thread.
bool is_under_way(Request& request);

}  // namespace holdfast::mpi
