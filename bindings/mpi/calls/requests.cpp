// Waiting for requests, asking about them, and ending them.
#include <numeric>
#include <vector>

#include "mpi/calls.h"
#include "mpi/core/process.h"
#include "mpi/traffic/request.h"

namespace holdfast::mpi {
namespace {

// The requests of an array; null where the handle is null or the request is inactive.
struct Listed {
  std::vector<Request*> all;
  int code = kSuccess;
  bool any = false;  // an active one
};

bool is_active(const Request* request) { return request != nullptr && request->active; }

Listed read(Call& call, int count, const Handles<Request>& requests) {
  Listed list;
  if (count < 0) {
    list.code = call.fail(kErrCount, "count is " + std::to_string(count) + "; accepted: 0 or more");
    return list;
  }
  if (count > 0 && requests.is_null()) {
    list.code = call.fail(kErrArg, "array_of_requests is a null pointer; accepted: an array of " +
                                       std::to_string(count));
    return list;
  }
  list.all.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < list.all.size(); ++i) {
    bool valid = true;
    Request* request = requests.get(i, &valid);
    if (!valid) {
      list.code = call.fail(kErrRequest, "array_of_requests[" + std::to_string(i) +
                                             "] is no request; it may have been freed");
      return list;
    }
    list.all[i] = is_active(request) ? request : nullptr;
    list.any = list.any || list.all[i] != nullptr;
  }
  return list;
}

// What MPI has for a request that is null or inactive: its error is MPI_SUCCESS, and set
// (MPI-4.1, 3.7.3).
Status empty() {
  Status status;
  status.source = kAnySource;
  status.tag = kAnyTag;
  return status;
}

// Takes the outcome of a request that is done.
int take(Call& call, Request*& request, Status& status) {
  Failure failure = finish(request, status);
  return call.take(std::move(failure));
}

// Ends the request `i` of the array, whose handle may become null.
Failure take_listed(const Handles<Request>& handles, std::size_t i, Request* request,
                    Status& status) {
  // What is listed twice has ended with its first place.
  bool valid = true;
  if (handles.get(i, &valid) != request || !valid) {
    return {kErrRequest, "array_of_requests[" + std::to_string(i) + "] is listed twice"};
  }
  Request* left = request;
  Failure failure = finish(left, status);
  if (left == nullptr) handles.set(i, nullptr);
  return failure;
}

int take_all(Call& call, Listed& list, const Handles<Request>& handles, const StatusOut& statuses) {
  std::vector<Failure> failures(list.all.size());
  std::vector<Status> results(list.all.size(), empty());
  std::size_t failed = list.all.size();
  for (std::size_t i = 0; i < list.all.size(); ++i) {
    if (list.all[i] == nullptr) continue;
    failures[i] = take_listed(handles, i, list.all[i], results[i]);
    if (failures[i].code != kSuccess && failed == list.all.size()) failed = i;
  }
  const bool any_failed = failed != list.all.size();
  for (std::size_t i = 0; i < results.size(); ++i) {
    statuses.set(results[i], i, any_failed || list.all[i] == nullptr);
  }
  if (!any_failed) return kSuccess;
  return call.fail(kErrInStatus,
                   "request " + std::to_string(failed) + " failed: " + failures[failed].text);
}

int take_some(Call& call, const Listed& list, const Handles<Request>& handles,
              const OutInts& indices, const StatusOut& statuses, int& count) {
  std::size_t ended = 0;
  Failure first;
  std::vector<Status> results;
  for (std::size_t i = 0; i < list.all.size(); ++i) {
    if (list.all[i] == nullptr || !is_done(*list.all[i])) continue;
    Failure failure = take_listed(handles, i, list.all[i], results.emplace_back());
    if (first.code == kSuccess) first = std::move(failure);
    indices.set(ended++, static_cast<std::int64_t>(i));
  }
  for (std::size_t i = 0; i < ended; ++i) statuses.set(results[i], i, first.code != kSuccess);
  count = static_cast<int>(ended);
  if (first.code == kSuccess) return kSuccess;
  return call.fail(kErrInStatus, "a request failed: " + first.text);
}

int take_one(Call& call, const Listed& list, const Handles<Request>& handles, std::size_t i,
             int& index, const StatusOut& status) {
  Status result;
  Failure failure = take_listed(handles, i, list.all[i], result);
  index = static_cast<int>(i);
  status.set(result);
  return call.take(std::move(failure));
}

// The outcomes of these entries, all of which are done or inactive, without taking them.
int look_at(Call& call, const Listed& list, const std::vector<std::size_t>& indices,
            const StatusOut& statuses) {
  std::vector<Status> results(indices.size(), empty());
  Failure first;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    Request* request = list.all[indices[i]];
    if (request == nullptr) continue;
    Failure failure = outcome_of(*request, results[i]);
    results[i].error = failure.code;
    if (first.code == kSuccess) first = std::move(failure);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    statuses.set(results[i], i, first.code != kSuccess || list.all[indices[i]] == nullptr);
  }
  if (first.code == kSuccess) return kSuccess;
  return call.fail(kErrInStatus, "a request failed: " + first.text);
}

// The first that is done; as many as there are: none is.
std::size_t find_done(const Listed& list) {
  process().scripts.advance();
  for (std::size_t i = 0; i < list.all.size(); ++i) {
    if (list.all[i] != nullptr && is_done(*list.all[i])) return i;
  }
  return list.all.size();
}

bool all_done(const Listed& list) {
  process().scripts.advance();
  bool all = true;
  for (Request* request : list.all) {
    if (request != nullptr && !is_done(*request)) all = false;
  }
  return all;
}

}  // namespace

namespace body {

int Wait(Call& call, Request*& request, const StatusOut& status) {
  Status result = empty();
  int code = kSuccess;
  const bool active = is_active(request);
  if (active) {
    wait_for(*request, call.name());
    code = take(call, request, result);
  }
  status.set(result, 0, !active);
  return code;
}

int Test(Call& call, Request*& request, bool& flag, const StatusOut& status) {
  Status result = empty();
  int code = kSuccess;
  flag = true;
  const bool active = is_active(request);
  if (active) {
    process().scripts.advance();
    flag = is_done(*request);
    if (!flag) return kSuccess;
    code = take(call, request, result);
  }
  status.set(result, 0, !active);
  return code;
}

int Waitall(Call& call, int count, const Handles<Request>& array_of_requests,
            const StatusOut& array_of_statuses) {
  Listed list = read(call, count, array_of_requests);
  if (list.code != kSuccess) return list.code;
  wait_for_all(list.all, call.name());
  return take_all(call, list, array_of_requests, array_of_statuses);
}

int Testall(Call& call, int count, const Handles<Request>& array_of_requests, bool& flag,
            const StatusOut& array_of_statuses) {
  Listed list = read(call, count, array_of_requests);
  if (list.code != kSuccess) return list.code;
  flag = all_done(list);
  return flag ? take_all(call, list, array_of_requests, array_of_statuses) : kSuccess;
}

int Waitany(Call& call, int count, const Handles<Request>& array_of_requests, int& index,
            const StatusOut& status) {
  const Listed list = read(call, count, array_of_requests);
  if (list.code != kSuccess) return list.code;
  if (!list.any) {
    index = kUndefined;
    status.set(empty(), 0, true);
    return kSuccess;
  }
  return take_one(call, list, array_of_requests, wait_for_any(list.all, call.name()), index,
                  status);
}

int Testany(Call& call, int count, const Handles<Request>& array_of_requests, int& index,
            bool& flag, const StatusOut& status) {
  const Listed list = read(call, count, array_of_requests);
  if (list.code != kSuccess) return list.code;
  index = kUndefined;
  flag = true;
  if (!list.any) {
    status.set(empty(), 0, true);
    return kSuccess;
  }
  const std::size_t done = find_done(list);
  flag = done < list.all.size();
  if (!flag) return kSuccess;
  return take_one(call, list, array_of_requests, done, index, status);
}

int Waitsome(Call& call, int incount, const Handles<Request>& array_of_requests, int& outcount,
             const OutInts& array_of_indices, const StatusOut& array_of_statuses) {
  const Listed list = read(call, incount, array_of_requests);
  if (list.code != kSuccess) return list.code;
  if (incount > 0 && array_of_indices.is_null()) {
    return call.fail(kErrArg, "array_of_indices is a null pointer; accepted: an array of " +
                                  std::to_string(incount));
  }
  outcount = kUndefined;
  if (!list.any) return kSuccess;
  wait_for_any(list.all, call.name());
  return take_some(call, list, array_of_requests, array_of_indices, array_of_statuses, outcount);
}

int Testsome(Call& call, int incount, const Handles<Request>& array_of_requests, int& outcount,
             const OutInts& array_of_indices, const StatusOut& array_of_statuses) {
  const Listed list = read(call, incount, array_of_requests);
  if (list.code != kSuccess) return list.code;
  if (incount > 0 && array_of_indices.is_null()) {
    return call.fail(kErrArg, "array_of_indices is a null pointer; accepted: an array of " +
                                  std::to_string(incount));
  }
  outcount = kUndefined;
  if (!list.any) return kSuccess;
  process().scripts.advance();
  return take_some(call, list, array_of_requests, array_of_indices, array_of_statuses, outcount);
}

int Request_free(Call& call, Request*& request) {
  if (request == nullptr) {
    return call.fail(kErrRequest, "request is MPI_REQUEST_NULL; there is nothing to free");
  }
  Request* const freed = request;
  request = nullptr;
  // What is under way ends by itself; its memory is kept until then.
  if (freed->active && !is_done(*freed)) {
    process().registry.take_handle(freed);
    process().orphans.add(freed);
    return kSuccess;
  }
  Failure failure = release(*freed);
  process().registry.drop(freed);
  return call.take(std::move(failure));
}

int Request_get_status(Call& call, Request* request, bool& flag, const StatusOut& status) {
  Status result = empty();
  flag = true;
  int code = kSuccess;
  const bool active = is_active(request);
  if (active) {
    process().scripts.advance();
    flag = is_done(*request);
    if (!flag) return kSuccess;
    Failure failure = outcome_of(*request, result);
    code = call.take(std::move(failure));
  }
  status.set(result, 0, !active);
  return code;
}

int Request_get_status_all(Call& call, int count, const Handles<Request>& array_of_requests,
                           bool& flag, const StatusOut& array_of_statuses) {
  const Listed list = read(call, count, array_of_requests);
  if (list.code != kSuccess) return list.code;
  flag = all_done(list);
  if (!flag) return kSuccess;
  std::vector<std::size_t> indices(list.all.size());
  std::iota(indices.begin(), indices.end(), 0);
  return look_at(call, list, indices, array_of_statuses);
}

int Request_get_status_any(Call& call, int count, const Handles<Request>& array_of_requests,
                           int& index, bool& flag, const StatusOut& status) {
  const Listed list = read(call, count, array_of_requests);
  if (list.code != kSuccess) return list.code;
  index = kUndefined;
  flag = true;
  Status result = empty();
  Failure failure;
  if (list.any) {
    const std::size_t done = find_done(list);
    flag = done < list.all.size();
    if (!flag) return kSuccess;
    index = static_cast<int>(done);
    failure = outcome_of(*list.all[done], result);
  }
  status.set(result, 0, !list.any);
  return call.take(std::move(failure));
}

int Request_get_status_some(Call& call, int incount, const Handles<Request>& array_of_requests,
                            int& outcount, const OutInts& array_of_indices,
                            const StatusOut& array_of_statuses) {
  const Listed list = read(call, incount, array_of_requests);
  if (list.code != kSuccess) return list.code;
  outcount = kUndefined;
  if (!list.any) return kSuccess;
  process().scripts.advance();
  std::vector<std::size_t> done;
  for (std::size_t i = 0; i < list.all.size(); ++i) {
    if (list.all[i] == nullptr || !is_done(*list.all[i])) continue;
    array_of_indices.set(done.size(), static_cast<std::int64_t>(i));
    done.push_back(i);
  }
  outcount = static_cast<int>(done.size());
  return look_at(call, list, done, array_of_statuses);
}

int Cancel(Call& call, Request*& request) {
  if (!is_active(request)) {
    return call.fail(kErrRequest,
                     "request is " +
                         std::string(request == nullptr ? "MPI_REQUEST_NULL" : "an inactive one") +
                         "; accepted: one that is under way");
  }
  if (request->what == Request::What::kGeneralised) {
    const Generalised& own = *request->generalised;
    using CancelFunction = int (*)(void*, int);
    const int given = reinterpret_cast<CancelFunction>(own.cancel)(
        own.state, request->complete.load(std::memory_order_acquire) ? 1 : 0);
    const int code = call.abi().to_core(Meaning::kError, given);
    return code == kSuccess ? kSuccess : call.fail(code, "the request's cancel function failed");
  }
  if (request->what == Request::What::kScript) {
    return call.fail(kErrRequest, "request is a collective's; those cannot be cancelled");
  }
  if (request->what != Request::What::kNothing && !request->buffered) {
    process().mailbox().cancel(request->mail);
  }
  return kSuccess;
}

int Test_cancelled(Call& call, const StatusOut& status, bool& flag) {
  if (status.is_ignored()) return call.fail(kErrArg, "status is MPI_STATUS_IGNORE");
  flag = status.get().cancelled;
  return kSuccess;
}

int Grequest_start(Call& call, Function query_fn, Function free_fn, Function cancel_fn,
                   void* extra_state, Request*& request) {
  if (query_fn == nullptr || free_fn == nullptr || cancel_fn == nullptr) {
    return call.fail(kErrArg, "query_fn, free_fn or cancel_fn is a null pointer");
  }
  request = new_request(nullptr);
  if (request == nullptr) return call.fail(kErrIntern, "there are too many requests");
  request->what = Request::What::kGeneralised;
  request->generalised =
      std::make_unique<Generalised>(Generalised{query_fn, free_fn, cancel_fn, extra_state});
  return kSuccess;
}

int Grequest_complete(Call& call, Request* request) {
  if (request == nullptr || request->what != Request::What::kGeneralised) {
    return call.fail(kErrRequest, std::string("request is ") +
                                      (request == nullptr ? "MPI_REQUEST_NULL" : "another one") +
                                      "; accepted: one of MPI_Grequest_start()");
  }
  request->complete.store(true, std::memory_order_release);
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi
