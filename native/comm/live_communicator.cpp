#include "comm/live_communicator.h"

#include <algorithm>

#include "comm/algorithms/catalogue.h"
#include "comm/request_check.h"

namespace holdfast::comm {
namespace {

// close() asks this often whether the running ops have ended.
constexpr Duration kQuietLook = std::chrono::milliseconds(1);
// More than the driver ever needs to run one task.
constexpr Duration kLeaveTime = std::chrono::seconds(5);

// From here on an op takes longer than its waits.
constexpr std::uint64_t kBulkBytes = 512 * 1024;

bool is_point_to_point(Collective c) { return c == Collective::kSend || c == Collective::kRecv; }

// FNV-1a over what must agree between ranks; sizes are compared on their own.
std::uint32_t signature_of(const OpRequest& request) {
  std::uint32_t hash = 2166136261U;
  const auto mix = [&](std::uint32_t value) { hash = (hash ^ value) * 16777619U; };
  mix(is_point_to_point(request.collective) ? 99U : static_cast<std::uint32_t>(request.collective));
  if (is_point_to_point(request.collective)) return hash;
  mix(static_cast<std::uint32_t>(request.dtype));
  mix(static_cast<std::uint32_t>(request.op));
  mix(static_cast<std::uint32_t>(request.root.value));
  return hash;
}

std::uint64_t payload_bytes(const OpRequest& request) {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  for (const Block& b : request.input) in += b.count;
  for (const Block& b : request.output) out += b.count;
  return std::max(in, out) * dtype_bytes(request.dtype);
}

std::string rank_list(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i].value);
  }
  return text;
}

Schedule message_schedule(const OpRequest& request, Rank rank, int size) {
  Schedule schedule;
  schedule.collective = request.collective;
  schedule.rank = rank;
  schedule.size = size;
  schedule.chunks = 1;
  Step step;
  step.peer = request.peer;
  const bool sends = request.collective == Collective::kSend;
  step.kind = sends ? StepKind::kSend : StepKind::kRecv;
  (sends ? step.lhs : step.dst) = {sends ? Space::kInput : Space::kOutput, 0};
  schedule.steps.push_back(step);
  return schedule;
}

}  // namespace

LiveCommunicator::LiveCommunicator(CommunicatorConfig config, std::shared_ptr<Executor> executor,
                                   std::shared_ptr<const Clock> clock)
    : config_(std::move(config)),
      executor_(std::move(executor)),
      clock_(std::move(clock)),
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
  Active active;
  active.work = work;
  active.deadline = clock_->now() + request.timeout;
  active.bytes = payload_bytes(request);
  next_deadline_ = std::min(next_deadline_, active.deadline);
  const bool flat = config_.flat && (request.algorithm.empty() || request.algorithm == "flat") &&
                    FlatExchange::carries(request, size());
  if (!flat) active.run = make_run(*work);
  active_.push_back(std::move(active));
}

std::unique_ptr<Run> LiveCommunicator::make_run(const OpWork& work) {
  const OpRequest& request = work.request();
  RunKey key{config_.id, config_.view.epoch, 0, signature_of(request), 0};
  Schedule message;
  const Schedule* schedule = &message;
  if (is_point_to_point(request.collective)) {
    message = message_schedule(request, config_.rank, size());
    key.op = kPointToPoint | request.tag;
    key.first_ordinal = messages_[{request.collective, request.peer.value, request.tag}]++;
  } else {
    schedule = &schedule_for(request);
    key.op = work.sequence().value & ~kPointToPoint;
  }
  const Layout layout =
      make_layout(*schedule, request.input, request.output, dtype_bytes(request.dtype));
  const Arithmetic arithmetic{request.dtype, request.op, static_cast<std::uint32_t>(size())};
  return std::make_unique<Run>(lower(*schedule, layout, arithmetic, pool_), key, data_links_);
}

const Schedule& LiveCommunicator::schedule_for(const OpRequest& request) {
  const AlgorithmRow& row =
      request.algorithm.empty()
          ? choose_algorithm(request.collective, size(), payload_bytes(request), config_.link_model)
          : *find_algorithm(request.collective, request.algorithm);
  const std::tuple key{request.collective, std::string(row.algorithm), request.root.value};
  const auto found = schedules_.find(key);
  if (found != schedules_.end()) return found->second;
  const BuildSpec spec{request.collective, config_.rank, size(), request.root};
  return schedules_.emplace(key, row.build(spec)).first->second;
}

bool LiveCommunicator::moves_bulk() const {
  return std::any_of(active_.begin(), active_.end(),
                     [](const Active& a) { return a.bytes > kBulkBytes; });
}

bool LiveCommunicator::progress(Instant now) {
  if (active_.empty()) return false;
  bool moved = advance_flat();
  moved = advance_runs() || moved;
  if (any_gone_ && !moved) moved = check_gone();
  if (now >= next_deadline_) check_deadlines(now);
  return moved;
}

bool LiveCommunicator::advance_flat() {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size();) {
    Active& active = active_[i];
    if (active.run != nullptr) {
      ++i;
      continue;
    }
    if (!active.begun) {
      config_.flat->begin(active.work->request(), signature_of(active.work->request()));
      active.begun = true;
    }
    const bool ended = config_.flat->advance();
    moved = moved || config_.flat->moved();
    if (!ended) return moved;  // flat ops go one after the other
    if (const Status failure = config_.flat->failure(); !failure.is_ok()) {
      end_view({failure.code(), {config_.rank}, op_text(*active.work) + ": " + failure.message()});
      return true;
    }
    finish(active, Status::ok());
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
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
      end_view({failure.code(),
                {lost ? peer : config_.rank},
                op_text(*active.work) + ": with rank " + std::to_string(peer.value) + ": " +
                    failure.message()});
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

void LiveCommunicator::on_gone(Rank rank, Status why) {
  gone_[static_cast<std::size_t>(rank.value)] = std::move(why);
  any_gone_ = true;
}

// What a departed peer had sent is still worth having: the view ends only when an op waits for it
// in vain.
bool LiveCommunicator::check_gone() {
  if (!health().is_ok()) return false;
  for (std::size_t r = 0; r < gone_.size(); ++r) {
    if (gone_[r].is_ok()) continue;
    if (data_links_[r] != nullptr && data_links_[r]->pump()) return true;
    const Rank rank{static_cast<int>(r)};
    for (const Active& active : active_) {
      const std::vector<Rank> waits = waited_for(active);
      if (std::find(waits.begin(), waits.end(), rank) == waits.end()) continue;
      end_view({gone_[r].code(), {rank}, op_text(*active.work) + ": " + gone_[r].message()});
      return true;
    }
  }
  return false;
}

std::vector<Rank> LiveCommunicator::waited_for(const Active& active) const {
  if (active.run != nullptr) return active.run->waited_for();
  return active.begun ? config_.flat->waited_for() : std::vector<Rank>{};
}

void LiveCommunicator::check_deadlines(Instant now) {
  next_deadline_ = {Duration::max()};
  for (const Active& active : active_) {
    if (now < active.deadline) {
      next_deadline_ = std::min(next_deadline_, active.deadline);
      continue;
    }
    const double seconds = std::chrono::duration<double>(active.work->request().timeout).count();
    const std::vector<Rank> waits = waited_for(active);
    end_view({Code::kTimeout, waits,
              op_text(*active.work) + ": rank " + std::to_string(config_.rank.value) +
                  " gave up after " + std::to_string(seconds) +
                  " s (option timeout), waiting for " +
                  (waits.empty() ? "nobody" : rank_list(waits))});
    return;
  }
}

void LiveCommunicator::end_view(const ViewNotice& notice) {
  if (!health().is_ok()) return;
  const std::vector<std::byte> payload = encode_notice(notice);
  for (std::size_t r = 0; r < config_.links.size(); ++r) {
    Link* control = config_.links[r].control;
    if (control == nullptr || !gone_[r].is_ok()) continue;
    control->session().send_control(FrameKind::kRevoke, config_.id, config_.view.epoch, payload);
    control->pump();
  }
  fail_all(Status(notice.code, notice.text).about(notice.ranks, config_.view.epoch));
}

// Passed on to everybody: else a member that hears it late would take one that heard it early, and
// left, for the lost.
void LiveCommunicator::on_revoke(Rank from, std::span<const std::byte> payload) {
  auto notice = decode_notice(payload, size());
  if (!notice.is_ok()) notice = ViewNotice{Code::kProtocolError, {from}, "malformed view notice"};
  ViewNotice& n = notice.value();
  // The one who aborts is, to the others, lost.
  if (n.code == Code::kAborted) n = {Code::kPeerLost, {from}, n.text};
  end_view(n);
}

void LiveCommunicator::fail_all(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_.is_ok()) return;
    ended_ = status;
  }
  std::vector<Active> failed;
  failed.swap(active_);
  for (Active& active : failed) finish(active, describe(*active.work, status, status.ranks()));
  for (Link* link : data_links_) {
    if (link != nullptr) link->session().retire(config_.id, config_.view.epoch);
  }
}

void LiveCommunicator::finish(Active& active, Status status) {
  if (active.run != nullptr) {
    active.run->cancel();
    pool_.give(active.run->take_scratch());
  }
  executor_->defer([work = active.work, status = std::move(status)] { work->end(status); });
}

std::string LiveCommunicator::op_text(const OpWork& work) const {
  return std::string(collective_name(work.collective())) + " #" +
         std::to_string(work.sequence().value) + " of group " + name();
}

Status LiveCommunicator::describe(const OpWork& work, const Status& cause,
                                  std::vector<Rank> ranks) const {
  std::string text = op_text(work) + " (epoch " + std::to_string(config_.view.epoch.value) +
                     ", rank " + std::to_string(config_.rank.value) + " of " +
                     std::to_string(size()) + ") failed";
  if (cause.code() == Code::kPeerLost && !ranks.empty()) text += ": lost " + rank_list(ranks);
  text += ": " + cause.message();
  return Status(cause.code(), std::move(text)).about(std::move(ranks), config_.view.epoch);
}

void LiveCommunicator::abort(const std::string& reason) {
  const ViewNotice notice{Code::kAborted, {config_.rank}, "aborted: " + reason};
  executor_->submit([self = shared_from_this(), notice] { self->end_view(notice); }, true);
}

Status LiveCommunicator::close(Duration timeout) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Status::ok();
    closed_ = true;
  }
  // Owners: this call and its tasks, which may outlive it when the driver is stuck.
  struct Leaving {
    std::atomic<bool> quiet{false};
    std::atomic<bool> gone{false};
  };
  auto leaving = std::make_shared<Leaving>();
  const auto is_quiet = [leaving] { return leaving->quiet.load(std::memory_order_acquire); };
  const auto is_gone = [leaving] { return leaving->gone.load(std::memory_order_acquire); };
  const auto look = [self = shared_from_this(), leaving] {
    if (self->active_.empty()) leaving->quiet.store(true, std::memory_order_release);
  };
  const Instant deadline = clock_->now() + timeout;
  while (!is_quiet() && clock_->now() < deadline) {
    executor_->submit(look, false);
    executor_->drive_until(is_quiet, std::min(deadline, clock_->now() + kQuietLook));
  }
  executor_->submit(
      [self = shared_from_this(), leaving, look] {
        look();
        self->leave();
        leaving->gone.store(true, std::memory_order_release);
      },
      false);
  executor_->drive_until(is_gone, clock_->now() + kLeaveTime);
  if (is_quiet()) return Status::ok();
  return {Code::kTimeout, "group " + name() + " was closed with ops still running"};
}

// Tells the others that this member goes; what still runs here ends first.
void LiveCommunicator::leave() {
  if (!active_.empty()) end_view({Code::kAborted, {config_.rank}, "closed with ops running"});
  for (std::size_t r = 0; r < config_.links.size(); ++r) {
    Link* control = config_.links[r].control;
    if (control == nullptr || !gone_[r].is_ok()) continue;
    control->session().send_control(FrameKind::kGoodbye, config_.id, config_.view.epoch, {});
    control->pump();
  }
  fail_all({Code::kNotMember, "group " + name() + " is closed"});
}

}  // namespace holdfast::comm
