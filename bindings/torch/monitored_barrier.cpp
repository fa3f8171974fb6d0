// The barrier that names missing ranks. Rank 0 receives a message from every rank, then releases
// every rank. It names the ranks that do not report in time, and aborts the group, because its
// members are out of step then.
#include "backend.h"
#include "gil.h"
#include "raise.h"

namespace holdfast::torch_backend {
namespace {

using comm::Collective;

std::string rank_names(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "Rank " : "Ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace

// Starts sending or receiving an empty message.
std::shared_ptr<comm::Work> HoldfastBackend::signal(Collective kind, int peer) {
  comm::OpRequest request;
  request.collective = kind;
  (kind == Collective::kSend ? request.input : request.output) = comm::BlockList{comm::Block{}};
  request.dtype = DType::kU8;
  request.peer = {peer};
  request.tag = kMonitorTag;
  request.timeout = kForever;  // the callers' wait() has the limit
  return value_or_raise(group()->start(std::move(request)));
}

void HoldfastBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  refuse_in_child();
  const WithoutGil release;
  const auto limit = opts.timeout == c10d::kUnsetTimeout ? options_->timeout : opts.timeout;
  if (getRank() == 0) return watch_barrier(limit, wait_all_ranks);
  Status status = signal(Collective::kSend, 0)->wait(limit);
  if (status.is_ok()) status = signal(Collective::kRecv, 0)->wait(limit);
  if (status.is_ok()) return;
  group_->abort("monitoredBarrier: rank 0 did not let rank " + std::to_string(getRank()) + " go");
  raise({status.code(), "Rank " + std::to_string(getRank()) +
                            " successfully reached monitoredBarrier, but received errors while "
                            "waiting for send/recv from rank 0. Please check rank 0 logs for "
                            "faulty rank. Original error: " +
                            status.message()});
}

void HoldfastBackend::watch_barrier(std::chrono::milliseconds limit, bool wait_all_ranks) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<std::shared_ptr<comm::Work>> arrivals;
  for (int r = 1; r < getSize(); ++r) arrivals.push_back(signal(Collective::kRecv, r));
  std::vector<int> missing;
  for (int r = 1; r < getSize() && (missing.empty() || wait_all_ranks); ++r) {
    const Duration left = end - std::chrono::steady_clock::now();
    const auto& arrival = arrivals[static_cast<std::size_t>(r - 1)];
    if (!arrival->wait(std::max(Duration::zero(), left)).is_ok()) missing.push_back(r);
  }
  if (missing.empty()) {
    for (int r = 1; r < getSize(); ++r) raise_if(signal(Collective::kSend, r)->wait(kForever));
    return;
  }
  const std::string time = std::to_string(limit.count()) + " ms";
  const std::string text = limit.count() == 0 ? "Rank 0 timed out in monitoredBarrier after " + time
                                              : "[Rank 0]: " + rank_names(missing) +
                                                    " failed to pass monitoredBarrier in " + time;
  group_->abort(text);
  std::vector<Rank> ranks;
  for (const int r : missing) ranks.push_back({r});
  raise(Status(Code::kTimeout, text).about(std::move(ranks), group_->view().epoch));
}

}  // namespace holdfast::torch_backend
