#include "comm/live_communicator.h"

#include <algorithm>

#include "comm/algorithms/catalogue.h"
#include "comm/request_check.h"

namespace holdfast::comm {
namespace {

// From here on an op takes longer than its waits.
constexpr std::uint64_t kBulkBytes = 512 * 1024;

// An op that waits this long asks whether the others made the same call. Rare enough to cost
// nothing, short enough for a person.
constexpr Duration kStallTime = std::chrono::seconds(1);

}  // namespace

LiveCommunicator::LiveCommunicator(CommunicatorConfig config, std::shared_ptr<Executor> executor,
                                   std::shared_ptr<const Clock> clock)
    : config_(std::move(config)),
      executor_(std::move(executor)),
      clock_(std::move(clock)),
      runs_(config_, data_links_),
      calls_(config_.view.members.size()),
      gone_(config_.view.members.size()) {
  for (const MemberLinks& links : config_.links) data_links_.push_back(links.data);
}

LiveCommunicator::~LiveCommunicator() { CHECK(active_.empty()); }

std::vector<std::string> LiveCommunicator::transports() const {
  std::vector<std::string> names;
  for (const Link* link : data_links_) {
    names.emplace_back(link == nullptr ? "self" : link->transport());
  }
  return names;
}

Status LiveCommunicator::health() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

Result<std::shared_ptr<Work>> LiveCommunicator::start(OpRequest request) {
  if (request.algorithm.empty() &&
      find_algorithm(request.collective, config_.algorithm) != nullptr) {
    request.algorithm = config_.algorithm;
  }
  if (Status status = check_request(request, config_.rank, size()); !status.is_ok()) return status;
  if (request.timeout == Duration::zero()) request.timeout = config_.timeout;
  const bool wake = !request.expect_wait;
  const std::lock_guard lock(mutex_);
  if (closed_) return Status{Code::kNotMember, "group " + name() + " is closed"};
  // Apart: a message concerns two ranks, and the number of a collective must be the same on all.
  std::uint32_t& next = is_point_to_point(request.collective) ? next_message_ : next_sequence_;
  auto work = std::make_shared<OpWork>(std::move(request), OpSeq{next++}, executor_, clock_);
  executor_->submit([self = shared_from_this(), work] { self->launch(work); }, wake);
  return std::shared_ptr<Work>(work);
}

void LiveCommunicator::launch(const std::shared_ptr<OpWork>& work) {
  const OpRequest& request = work->request();
  // A member that has left is no reason to refuse: what it sent before may be all this op needs.
  const Status ended = health();
  if (!ended.is_ok()) {
    executor_->defer([work, status = describe(*work, ended, ended.ranks())] { work->end(status); });
    return;
  }
  const Instant now = clock_->now();
  Active active;
  active.work = work;
  active.deadline = now + request.timeout;
  active.stalls = active.deadline;
  active.bytes = payload_bytes(request);
  std::optional<Disagreement> differs;
  if (!is_point_to_point(request.collective)) {
    active.stalls = std::min(active.deadline, now + kStallTime);
    differs = calls_.record(call_of(request, work->sequence()));
    active.history = calls_.history();
  }
  next_deadline_ = std::min(next_deadline_, active.stalls);
  const bool flat = config_.flat && (request.algorithm.empty() || request.algorithm == "flat") &&
                    FlatExchange::carries(request, size());
  active.unbound = request.collective == Collective::kRecv;
  if (request.collective == Collective::kSend) {
    active.run = runs_.make_message(*work, request.peer);
  } else if (!flat && !active.unbound) {
    active.run = runs_.make(*work, active.history);
  }
  active_.push_back(std::move(active));
  if (ending_) report_again(work->sequence());
  if (differs) disagree(*differs);
}

bool LiveCommunicator::moves_bulk() const {
  return std::any_of(active_.begin(), active_.end(),
                     [](const Active& a) { return a.bytes > kBulkBytes; });
}

bool LiveCommunicator::progress(Instant now) {
  if (ending_) return collect_reports(now);
  if (active_.empty()) return false;
  bool moved = bind_receives();
  moved = advance_flat() || moved;
  moved = advance_runs() || moved;
  if (any_gone_ && !moved) moved = check_gone();
  if (now >= next_deadline_) check_deadlines(now);
  return moved;
}

bool LiveCommunicator::advance_flat() {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size();) {
    Active& active = active_[i];
    if (active.run != nullptr || active.unbound) {
      ++i;
      continue;
    }
    if (!active.begun) {
      config_.flat->begin(active.work->request(),
                          signature_of(active.work->request(), active.history));
      active.begun = true;
    }
    const bool ended = config_.flat->advance();
    moved = moved || config_.flat->moved();
    if (!ended) return moved;  // flat ops go one after the other
    if (const Status failure = config_.flat->failure(); !failure.is_ok()) {
      fail_op(active, {failure.code(), {config_.rank}, failure.message()});
      return true;
    }
    finish(active, Status::ok());
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return moved;
}

// A receive from any source takes the first message of its tag; receives of that tag that were
// posted later wait until it has, so that messages go to receives in the order of posting.
bool LiveCommunicator::bind_receives() {
  bool moved = false;
  std::vector<std::uint32_t> held_back;
  for (Active& active : active_) {
    if (!active.unbound) continue;
    const OpRequest& request = active.work->request();
    if (std::find(held_back.begin(), held_back.end(), request.tag) != held_back.end()) continue;
    const std::optional<Rank> source =
        request.peer == kAnySource ? runs_.find_message(request.tag) : request.peer;
    if (!source) {
      held_back.push_back(request.tag);
      continue;
    }
    active.work->set_source(*source);
    active.run = runs_.make_message(*active.work, *source);
    active.unbound = false;
    moved = true;
  }
  return moved;
}

bool LiveCommunicator::advance_runs() {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size();) {
    Active& active = active_[i];
    if (active.run == nullptr || !active.run->touched()) {
      ++i;
      continue;
    }
    moved = true;
    active.run->advance();
    if (active.run->failed()) {
      const Status failure = active.run->failure();
      const Rank peer = active.run->failed_peer();
      const bool lost = failure.code() == Code::kPeerLost;
      fail_op(active, {failure.code(),
                       {lost ? peer : config_.rank},
                       "with rank " + std::to_string(peer.value) + ": " + failure.message()});
      return true;
    }
    if (active.run->finished()) {
      finish(active, Status::ok());
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return moved;
}

std::vector<Rank> LiveCommunicator::waited_for(const Active& active) const {
  if (active.run != nullptr) return active.run->waited_for();
  if (!active.unbound) return active.begun ? config_.flat->waited_for() : std::vector<Rank>{};
  // The message may be anybody's: a death is one too many, departures only when nobody is left.
  std::vector<Rank> present;
  std::vector<Rank> others;
  for (std::int32_t r = 0; r < size(); ++r) {
    if (Rank{r} == config_.rank) continue;
    others.push_back({r});
    if (gone_[static_cast<std::size_t>(r)].is_ok()) present.push_back({r});
  }
  return any_died_ || present.empty() ? others : present;
}

void LiveCommunicator::finish(Active& active, Status status) {
  if (active.run != nullptr) runs_.end(*active.run);
  executor_->defer([work = active.work, status = std::move(status)] { work->end(status); });
}

}  // namespace holdfast::comm
