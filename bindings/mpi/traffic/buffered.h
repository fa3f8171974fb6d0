// Buffered sends: a copy of what is sent, so that the send is done at once. A program attaches
// memory for them (to a communicator, a session, or the process), whose size bounds what may be
// under way; the copies themselves are our own memory.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "mpi/traffic/messages.h"

namespace holdfast::mpi {

// Bytes of an attached buffer that each message takes beside its payload: the least of what the
// headers of the three ABIs call MPI_BSEND_OVERHEAD, so that no program's buffer is too small.
inline constexpr std::int64_t kBufferedOverhead = 96;

struct BufferPool {
  void* address = nullptr;  // what detach returns
  std::int64_t size = 0;
  bool automatic = false;  // MPI_BUFFER_AUTOMATIC: as much as is needed

  struct Copy {
    std::unique_ptr<std::byte[]> data;
    std::int64_t cost = 0;
    comm::MailRequest mail;
  };
  std::mutex mutex;        // guards all below
  std::list<Copy> copies;  // under way
  std::int64_t used = 0;

  // Copies and sends. kErrBuffer: the buffer is full.
  Failure send(const SendData& data, const Route& route);
  // Waits until all that was sent before has left.
  void flush();
};

// The pool of the communicator, or of the process; null: nothing is attached.
std::shared_ptr<BufferPool> pool_of(const Comm& comm);

}  // namespace holdfast::mpi
