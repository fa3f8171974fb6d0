#include "runtime/relay/relay_server.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/check.h"
#include "base/forks.h"
#include "base/net/socket.h"

namespace holdfast::runtime {
namespace {

constexpr int kEventsPerTurn = 64;
// Connections that the doorman has handed over and that were not taken yet.
constexpr std::size_t kMostAdopted = 256;
// For what was said last to be sent.
constexpr Duration kLastWordTime = std::chrono::seconds(1);
constexpr Duration kTick = std::chrono::milliseconds(250);
// Until descriptors may be there again.
constexpr Duration kListenerPause = std::chrono::milliseconds(50);
// Notes to a registered member that it does not read.
constexpr std::size_t kMostUnsent = std::size_t{16} << 10;

// Values of epoll's data that are no lines.
constexpr std::uint64_t kTheListener = ~std::uint64_t{0};
constexpr std::uint64_t kTheInterrupt = kTheListener - 1;

constexpr std::uint32_t kAllEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

bool watch_by(int epoll, int fd, std::uint32_t events, std::uint64_t what) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

// The kernel has random numbers once it has started.
void fill_randomly(std::span<std::byte> bytes) {
  CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
}

}  // namespace

Result<std::unique_ptr<RelayServer>> RelayServer::start(RelayRules rules) {
  const int epoll = open_unforked([] { return ::epoll_create1(EPOLL_CLOEXEC); });
  const int interrupt = open_unforked([] { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); });
  const bool works = epoll >= 0 && interrupt >= 0 &&
                     watch_by(epoll, interrupt, EPOLLIN, kTheInterrupt) &&
                     (rules.listener < 0 || watch_by(epoll, rules.listener, EPOLLIN, kTheListener));
  if (!works) {
    close_unforked(epoll);
    close_unforked(interrupt);
    return Status{Code::kSystem, "no file descriptors left (see ulimit -n)"};
  }
  return std::unique_ptr<RelayServer>(new RelayServer(std::move(rules), epoll, interrupt));
}

RelayServer::RelayServer(RelayRules rules, int epoll, int interrupt)
    : rules_(std::move(rules)),
      epoll_(epoll),
      interrupt_(interrupt),
      core_(rules_.gate, rules_.limits, fill_randomly),
      knocks_(epoll_),
      scratch_(SplicedPair::kReadBytes),
      thread_([this] { work(); }) {}

RelayServer::~RelayServer() {
  stop();
  close_unforked(epoll_);
  close_unforked(interrupt_);
}

void RelayServer::stop() {
  const std::lock_guard once(stopping_);
  if (!thread_.joinable()) return;
  stops_.store(true, std::memory_order_relaxed);  // relaxed: the eventfd orders it
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(interrupt_, &one, sizeof one);
  thread_.join();
  for (auto& [line, open] : lines_) {
    if (!open.pair) close_unforked(open.fd);
  }
  lines_.clear();
  knocks_.clear();
  const std::lock_guard lock(mutex_);
  for (const int fd : std::exchange(adopted_, {})) close_unforked(fd);
}

void RelayServer::adopt(int fd) {
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    full = adopted_.size() >= kMostAdopted || stops_.load(std::memory_order_relaxed);  // as above
    if (!full) adopted_.push_back(fd);
  }
  if (full) return close_unforked(fd);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(interrupt_, &one, sizeof one);
}

health::RelayNumbers RelayServer::RelayCounts::numbers() const {
  return {lines.registered, lines.waiting, lines.pairs, lines.joined, passed, lines.refused};
}

RelayServer::RelayCounts RelayServer::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void RelayServer::work() {
  // Signals are for the program's own threads.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "holdfast-relay");
  const auto tick = std::chrono::duration_cast<std::chrono::milliseconds>(kTick).count();
  for (;;) {
    const bool idle = lines_.empty() && knocks_.empty() && !rests_until_;
    if (!take_events(!ready_.empty() ? 0 : idle ? -1 : static_cast<int>(tick))) return;
    carry_out_acts(clock_.now());
    serve_pairs();
    look_at_time(clock_.now());
    if (lines_.empty()) publish();
  }
}

// False: the server is to end.
bool RelayServer::take_events(int timeout_ms) {
  std::array<epoll_event, kEventsPerTurn> events;
  const int count = ::epoll_wait(epoll_, events.data(), kEventsPerTurn, timeout_ms);
  const Instant now = clock_.now();
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const std::uint64_t what = event.data.u64;
    if (what == kTheListener) {
      accept_all(now);
    } else if (what == kTheInterrupt) {
      if (stops_.load(std::memory_order_relaxed)) return false;  // as in stop()
      std::uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t got = ::read(interrupt_, &ignored, sizeof ignored);
      std::vector<int> adopted;
      {
        const std::lock_guard lock(mutex_);
        adopted.swap(adopted_);
      }
      for (const int fd : adopted) admit(fd, now);
    } else {
      look_at(what, event.events, now);
    }
  }
  return true;
}

void RelayServer::accept_all(Instant now) {
  for (int i = 0; i < kEventsPerTurn; ++i) {
    const int fd = accept_one(rules_.listener);
    if (fd < 0) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOMEM) return;
      ::epoll_ctl(epoll_, EPOLL_CTL_DEL, rules_.listener, nullptr);
      rests_until_ = now + kListenerPause;
      return;
    }
    admit(fd, now);
  }
}

void RelayServer::admit(int fd, Instant now) {
  const Line line = ++last_;
  lines_[line].fd = fd;
  core_.enter(line, peer_address(fd), now);
  if (!watch_by(epoll_, fd, kAllEvents, line)) {
    core_.leave(line);
    return close_line(line);
  }
  listen_to(line, now);
}

void RelayServer::look_at(Line line, std::uint32_t events, Instant now) {
  if (knocks_.has(line)) return knocks_.look_at(line);
  const auto found = lines_.find(line);
  if (found == lines_.end()) return;
  OpenLine& open = found->second;
  if (open.pair) {
    // The caller's line stands for both.
    const Line first = std::min(line, open.other);
    OpenLine& caller = lines_.at(first);
    if (!std::exchange(caller.queued, true)) ready_.push_back(first);
    return;
  }
  if ((events & EPOLLOUT) != 0) flush(line);
  if (lines_.contains(line)) listen_to(line, now);
}

// Reads what a line says that is not joined; what is said after it is, is left in the socket.
void RelayServer::listen_to(Line line, Instant now) {
  std::array<std::byte, 2048> said;
  while (true) {
    const auto found = lines_.find(line);
    if (found == lines_.end() || found->second.pair) return;
    const ssize_t got = ::recv(found->second.fd, said.data(), said.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      core_.leave(line);
      return close_line(line);
    }
    if (found->second.leaves) continue;
    core_.hear(line, std::span(said).first(static_cast<std::size_t>(got)), now);
    carry_out_acts(now);
  }
}

// Each pair has its budget, and then waits until all others have had theirs.
void RelayServer::serve_pairs() {
  for (std::size_t left = ready_.size(); left > 0; --left) {
    const Line line = ready_.front();
    ready_.pop_front();
    const auto found = lines_.find(line);
    if (found == lines_.end() || !found->second.pair) continue;
    found->second.queued = false;
    const auto outcome = found->second.pair->turn(scratch_);
    if (outcome == SplicedPair::PairTurn::kMore) {
      found->second.queued = true;
      ready_.push_back(line);
    } else if (outcome == SplicedPair::PairTurn::kEnded) {
      core_.leave(line);
      close_line(line);
    }
  }
}

void RelayServer::carry_out_acts(Instant now) {
  for (const RelayCore::Act& act : core_.take()) {
    if (const auto* said = std::get_if<RelayCore::SayTo>(&act)) send(said->line, said->bytes);
    if (const auto* two = std::get_if<RelayCore::JoinTwo>(&act)) join(two->caller, two->callee);
    if (const auto* at = std::get_if<RelayCore::KnockAt>(&act)) knocks_.begin(*at, last_, now);
    if (const auto* gone = std::get_if<RelayCore::HangUp>(&act)) begin_to_leave(gone->line, now);
    const auto* note = std::get_if<RelayCore::Note>(&act);
    const auto line = note == nullptr ? lines_.end() : lines_.find(note->line);
    if (line == lines_.end() || !rules_.audit) continue;
    rules_.audit->write("relay refused", peer_address(line->second.fd), note->facts, note->why);
  }
}

void RelayServer::send(Line line, const std::vector<std::byte>& bytes) {
  const auto found = lines_.find(line);
  if (found == lines_.end() || found->second.pair) return;
  OpenLine& open = found->second;
  if (open.out.size() + bytes.size() > kMostUnsent) {
    core_.leave(line);
    return close_line(line);
  }
  open.out.insert(open.out.end(), bytes.begin(), bytes.end());
  flush(line);
}

void RelayServer::flush(Line line) {
  OpenLine& open = lines_.at(line);
  while (!open.out.empty()) {
    const ssize_t sent =
        ::send(open.fd, open.out.data(), open.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;  // a broken connection is seen when it is read
    open.out.erase(open.out.begin(), open.out.begin() + sent);
  }
  // What comes until the other side closes is read: else the kernel discards what was sent.
  if (open.leaves) ::shutdown(open.fd, SHUT_WR);
}

// A verdict fits into the buffer of a socket that has been sent little: who has not taken it does
// not hear it from the other side's bytes either.
void RelayServer::join(Line caller, Line callee) {
  const auto one = lines_.find(caller);
  const auto other = lines_.find(callee);
  const bool here = one != lines_.end() && other != lines_.end();
  if (!here || !one->second.out.empty() || !other->second.out.empty()) {
    for (const Line line : {caller, callee}) {
      core_.leave(line);
      if (lines_.contains(line)) close_line(line);
    }
    return;
  }
  one->second.pair = std::make_shared<SplicedPair>(one->second.fd, other->second.fd);
  other->second.pair = one->second.pair;
  one->second.other = callee;
  other->second.other = caller;
  const Line first = std::min(caller, callee);
  lines_.at(first).queued = true;
  ready_.push_back(first);
}

void RelayServer::begin_to_leave(Line line, Instant now) {
  const auto found = lines_.find(line);
  if (found == lines_.end()) return;
  OpenLine& open = found->second;
  if (open.pair) return close_line(line);
  open.leaves = true;
  open.until = now + kLastWordTime;
  flush(line);
}

// With the other line of its pair.
void RelayServer::close_line(Line line) {
  const auto found = lines_.find(line);
  if (found == lines_.end()) return;
  const OpenLine open = std::move(found->second);
  lines_.erase(found);
  // Where a forked child has the descriptor, too, closing alone does not remove it.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, open.fd, nullptr);
  if (!open.pair) return close_unforked(open.fd);
  const auto other = lines_.find(open.other);
  if (other == lines_.end()) {
    passed_before_ += open.pair->passed();
    return;
  }
  close_line(open.other);
}

void RelayServer::look_at_time(Instant now) {
  if (rests_until_ && now >= *rests_until_) {
    rests_until_.reset();
    watch_by(epoll_, rules_.listener, EPOLLIN, kTheListener);
  }
  if (now < next_tick_) return;
  next_tick_ = now + kTick;
  publish();
  core_.tick(now);
  carry_out_acts(now);
  std::vector<Line> late;
  for (const auto& [line, open] : lines_) {
    if (open.leaves && now >= open.until) late.push_back(line);
  }
  for (const Line line : late) close_line(line);
  end_idle_pairs(now);
  knocks_.tick(now);
}

void RelayServer::end_idle_pairs(Instant now) {
  std::vector<Line> idle;
  for (auto& [line, open] : lines_) {
    if (!open.pair || line > open.other) continue;
    if (open.pair->passed() != open.passed || open.idle_until == Instant{}) {
      open.passed = open.pair->passed();
      open.idle_until = now + rules_.limits.idle;
    } else if (now >= open.idle_until) {
      idle.push_back(line);
    }
  }
  for (const Line line : idle) {
    core_.leave(line);
    close_line(line);
  }
}

void RelayServer::publish() {
  RelayCounts now{core_.counts(), passed_before_};
  for (const auto& [line, open] : lines_) {
    if (open.pair && line < open.other) now.passed += open.pair->passed();
  }
  const std::lock_guard lock(mutex_);
  counts_ = now;
}

}  // namespace holdfast::runtime
