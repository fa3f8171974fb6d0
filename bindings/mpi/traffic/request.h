// Request: something under way that a program waits for: a message, a collective, or what the
// program itself does (a generalised request); persistent ones run again and again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/message/mailbox.h"
#include "mpi/core/call.h"
#include "mpi/core/object.h"
#include "mpi/traffic/partitions.h"
#include "mpi/traffic/script.h"

namespace holdfast::mpi {

struct Comm;
struct Datatype;
struct BufferPool;
class PackedSource;
class PackedSink;
class DeviceSource;
class DeviceSink;

// What a program does by itself, and says when it is done (MPI_Grequest_start).
struct Generalised {
  Function query;
  Function free;
  Function cancel;
  void* state;
};

struct Request : Object {
  static constexpr Kind kKind = Kind::kRequest;
  enum class What : std::uint8_t { kNothing, kSend, kReceive, kScript, kGeneralised };

  Request();
  ~Request();

  What what = What::kNothing;
  bool persistent = false;
  bool active = true;        // false: a persistent one between its runs
  bool buffered = false;     // a send whose payload has been copied: it is done at once
  Comm* comm = nullptr;      // a use of its own; null: none
  Datatype* type = nullptr;  // as comm
  comm::MailRequest mail;
  std::unique_ptr<PackedSource> source;
  std::unique_ptr<PackedSink> sink;
  std::unique_ptr<DeviceSource> device_source;  // of memory of a device, in place of these
  std::unique_ptr<DeviceSink> device_sink;
  Failure refused;  // why it has not begun: it is done, and ends with this
  std::shared_ptr<Script> script;
  std::unique_ptr<Generalised> generalised;
  std::atomic<bool> complete{false};  // of generalised ones. release by who ends it
  std::unique_ptr<Partitions> partitions;
  std::unique_ptr<Request> other;          // a send that this receive does not end without
  std::unique_ptr<std::byte[]> copy;       // of what is sent, where it must not stay
  std::function<Failure(Request&)> start;  // of persistent ones
  Status nothing;                          // the status where nothing is under way
};

// Makes a request of the communicator.
Request* new_request(Comm* comm);
// An inactive one, which holds what its runs use.
Request* new_persistent(Comm* comm, Datatype* type);

// Without waiting.
bool is_done(Request& request);
// Waits for one of them, or for all. Null entries, and inactive ones, count as done.
// `caller`: the call of the program, for who looks at a wait that takes long.
void wait_for(Request& request, const char* caller = nullptr);
void wait_for_all(std::span<Request* const> requests, const char* caller = nullptr);
std::size_t wait_for_any(std::span<Request* const> requests, const char* caller = nullptr);
// What became of a request that is done. The code and text of what went wrong, if anything.
Failure outcome_of(Request& request, Status& status);
// Requests that the program has freed while they were under way.
class Orphans {
 public:
  void add(Request* request);
  // Frees those that are done. Any thread.
  void look();
  void wait();
  // Waits for those of the communicator alone.
  void wait(const Comm* comm);

 private:
  template <class Chosen>
  void wait_where(Chosen chosen);

  std::mutex mutex_;  // guards the list
  std::vector<Request*> requests_;
};

// Calls the free function of a generalised request, once.
Failure release(Request& request);

// Ends a request that is done, and says what became of it, as outcome_of() does: a persistent one
// becomes inactive, another one is freed, and the handle becomes null. Where nothing else failed,
// the error of a generalised request's free function counts (MPI-4.1, 13.2).
Failure finish(Request*& request, Status& status);

}  // namespace holdfast::mpi
