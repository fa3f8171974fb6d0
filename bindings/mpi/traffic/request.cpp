#include "mpi/traffic/request.h"

#include <algorithm>
#include <thread>

#include "mpi/comms/comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/device_data.h"
#include "mpi/traffic/packed.h"
#include "mpi/traffic/wait_note.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {
namespace {

// A wait goes on with scripts under way this often; a wait for messages alone sleeps that long.
constexpr Duration kLongSlice = std::chrono::milliseconds(200);

bool is_mail(const Request& request) {
  return request.what == Request::What::kSend || request.what == Request::What::kReceive;
}

// A request that nothing more needs to happen for.
bool is_settled(const Request* request) {
  return request == nullptr || !request->active || request->what == Request::What::kNothing ||
         request->buffered;
}

// What a device has to do for a message that is done, which is waited for.
Failure outcome_on_device(Request& request) {
  if (request.device_source) return failure_of(request.device_source->status());
  return request.device_sink ? failure_of(request.device_sink->finish()) : Failure{};
}

Failure outcome_of_mail(Request& request, Status& status) {
  const comm::MailResult& result = request.mail.result;
  Failure on_device = outcome_on_device(request);
  if (on_device.code != kSuccess) return on_device;
  status.cancelled = result.outcome == comm::MailOutcome::kCancelled;
  if (request.what == Request::What::kReceive && !status.cancelled) {
    status.source = request.comm->peers().rank_of(result.source.value);
    status.tag = request.partitions ? request.partitions->tag : result.tag;
    status.bytes = static_cast<std::int64_t>(result.bytes);
  }
  if (result.outcome == comm::MailOutcome::kTruncated) {
    return {kErrTruncate, "the message (source " + std::to_string(status.source) + ", tag " +
                              std::to_string(status.tag) + ") is larger than the receive, which " +
                              "has room for " + std::to_string(result.bytes) + " bytes"};
  }
  if (result.outcome == comm::MailOutcome::kFailed) return failure_of(result.status);
  return {};
}

Failure outcome_of_generalised(Request& request, Status& status) {
  const Generalised& own = *request.generalised;
  const int code = process().abi().call_query(own.query, own.state, &status);
  if (code != kSuccess) return {code, "the query function of the request returned an error"};
  return {};
}

}  // namespace

Request::Request() : Object(kKind) {}

Request::~Request() {
  static_cast<void>(release(*this));
  process().registry.drop(type);
  process().registry.drop(comm);
}

Failure release(Request& request) {
  if (!request.generalised) return {};
  const std::unique_ptr<Generalised> own = std::move(request.generalised);
  using Free = int (*)(void*);
  const int code =
      process().abi().to_core(Meaning::kError, reinterpret_cast<Free>(own->free)(own->state));
  if (code == kSuccess) return {};
  return {code, "the free function of the request returned an error"};
}

Request* new_request(Comm* comm) {
  auto* request = process().registry.make<Request>();
  if (request != nullptr) request->comm = Registry::use(comm);
  return request;
}

Request* new_persistent(Comm* comm, Datatype* type) {
  Request* request = new_request(comm);
  if (request == nullptr) return nullptr;
  request->persistent = true;
  request->active = false;
  request->type = Registry::use(type);
  return request;
}

bool is_done(Request& request) {
  if (request.partitions && request.active && !is_under_way(request)) return false;
  if (request.other && !is_done(*request.other)) return false;
  if (is_settled(&request)) return true;
  switch (request.what) {
    case Request::What::kSend:
    case Request::What::kReceive:
      return request.mail.is_done() || process().mailbox().test(request.mail);
    case Request::What::kScript: return request.script->advance();
    case Request::What::kGeneralised: return request.complete.load(std::memory_order_acquire);
    case Request::What::kNothing: break;
  }
  return true;
}

void wait_for(Request& request, const char* caller) {
  if (request.other) wait_for(*request.other, caller);
  if (is_settled(&request)) return;
  comm::Mailbox& mailbox = process().mailbox();
  if (is_done(request)) return;
  WaitNote note(caller);
  do {
    const bool others = process().scripts.advance();
    const bool is_there = !request.partitions || is_under_way(request);
    if (is_mail(request) && is_there) {
      if (!mailbox.wait(request.mail, others ? kSliceOfWait : kLongSlice)) note.look(request);
    } else if (request.what == Request::What::kScript) {
      request.script->wait();
    } else {
      mailbox.poll();
      std::this_thread::yield();
    }
  } while (!is_done(request));
}

void wait_for_all(std::span<Request* const> requests, const char* caller) {
  std::vector<comm::MailRequest*> mails;
  for (Request* request : requests) {
    if (is_settled(request) || !is_mail(*request) || request->partitions) continue;
    if (!request->mail.is_done()) mails.push_back(&request->mail);
  }
  comm::Mailbox& mailbox = process().mailbox();
  WaitNote note(caller);
  while (!mails.empty()) {
    const bool others = process().scripts.advance();
    if (mailbox.wait_all(mails, others ? kSliceOfWait : kLongSlice)) break;
    note.look(requests);
  }
  for (Request* request : requests) {
    if (request != nullptr) wait_for(*request, caller);
  }
}

std::size_t wait_for_any(std::span<Request* const> requests, const char* caller) {
  std::vector<comm::MailRequest*> mails;
  WaitNote note(caller);
  for (;;) {
    bool all_mail = true;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Request* request = requests[i];
      if (request == nullptr || !request->active) continue;
      if (is_done(*request)) return i;
      all_mail = all_mail && is_mail(*request) && !request->other && !request->partitions;
    }
    const bool others = process().scripts.advance();
    if (all_mail) {
      if (mails.empty()) {
        for (Request* request : requests) {
          mails.push_back(request == nullptr || is_settled(request) ? nullptr : &request->mail);
        }
      }
      if (!process().mailbox().wait_any(mails, others ? kSliceOfWait : kLongSlice)) {
        note.look(requests);
      }
    } else {
      process().mailbox().poll();
      std::this_thread::yield();
    }
  }
}

Failure outcome_of(Request& request, Status& status) {
  if (request.other) {
    Failure failure = outcome_of(*request.other, status);
    if (failure.code != kSuccess) return failure;
  }
  status = Status{};
  if (!request.active) return {};
  if (request.refused.code != kSuccess) return request.refused;
  switch (request.what) {
    case Request::What::kNothing: status = request.nothing; return {};
    case Request::What::kSend:
      if (request.buffered) return {};
      return outcome_of_mail(request, status);
    case Request::What::kReceive: return outcome_of_mail(request, status);
    case Request::What::kScript: return request.script->failure();
    case Request::What::kGeneralised: return outcome_of_generalised(request, status);
  }
  return {};
}

namespace {

// What a device still has to do for a message is done, and errors have nobody to be told.
void drop_done(Request* request) {
  static_cast<void>(outcome_on_device(*request));
  process().registry.drop(request);
}

}  // namespace

void Orphans::add(Request* request) {
  look();
  const std::lock_guard lock(mutex_);
  requests_.push_back(request);
}

void Orphans::look() {
  std::vector<Request*> done;
  {
    const std::lock_guard lock(mutex_);
    const auto ended = std::stable_partition(requests_.begin(), requests_.end(),
                                             [](Request* request) { return !is_done(*request); });
    done.assign(ended, requests_.end());
    requests_.erase(ended, requests_.end());
  }
  // Which may call functions of the program.
  for (Request* request : done) drop_done(request);
}

template <class Chosen>
void Orphans::wait_where(Chosen chosen) {
  std::vector<Request*> left;
  {
    const std::lock_guard lock(mutex_);
    const auto others = std::stable_partition(requests_.begin(), requests_.end(), chosen);
    left.assign(requests_.begin(), others);
    requests_.erase(requests_.begin(), others);
  }
  for (Request* request : left) {
    wait_for(*request);
    drop_done(request);
  }
}

void Orphans::wait() {
  wait_where([](const Request*) { return true; });
}

void Orphans::wait(const Comm* comm) {
  wait_where([comm](const Request* request) { return request->comm == comm; });
}

Failure finish(Request*& request, Status& status) {
  Failure failure = outcome_of(*request, status);
  Failure freed = release(*request);
  if (failure.code == kSuccess) failure = std::move(freed);
  status.error = failure.code;
  if (request->persistent) {
    request->active = false;
  } else {
    process().registry.drop(request);
    request = nullptr;
  }
  return failure;
}

}  // namespace holdfast::mpi
