#include "comm/message/post_office.h"

#include <sched.h>

#include <algorithm>

namespace holdfast::comm {
namespace {

// Looks of a caller that waits before it drives the runtime: where each rank has a core of its own
// it spins, else it yields.
constexpr int kMailSpins = 2000;
constexpr int kMailYields = 16;
// A caller that tests in a loop lets others run once in so many calls.
constexpr std::uint32_t kTestsPerYield = 32;

bool is_active(const MailRequest* request) {
  // acquire: as is_done()
  return request != nullptr &&
         request->state.load(std::memory_order_acquire) == MailRequest::State::kActive;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Smaller messages, and those of a rank that receives as much at the same time, are faster by one
// copy of the receiver's: the sender's core has nothing to give then.
constexpr std::uint64_t kLeastAttended = 128 * 1024;

}  // namespace

PostOffice::PostOffice(Rank self, int size, const MailLimits& limits,
                       std::shared_ptr<Executor> executor, std::shared_ptr<const Clock> clock)
    : executor_(std::move(executor)),
      clock_(std::move(clock)),
      core_(self, size, limits),
      ways_(core_, memory_) {}

// After a step, under the lock: wakes the other ranks, and says what is left to be done.
// `completions_expected`: that no other thread waits for.
PostOffice::Leftover PostOffice::settle(std::uint64_t completions_expected) {
  ways_.ring_bells();
  // relaxed: written under the lock alone
  const bool has_news = news_.load(std::memory_order_relaxed) != core_.news();
  // release: pairs with the acquire of who waits for news
  if (has_news) news_.store(core_.news(), std::memory_order_release);
  turns_.store(ways_.is_stirred() || !ways_.all_ringed(), std::memory_order_relaxed);
  // relaxed: whoever is counted later takes the lock later, and looks for itself
  const bool told = has_news && probers_.load(std::memory_order_relaxed) > 0;
  return {ways_.is_stirred(), told || core_.completions() > completions_expected};
}

// Runs a step of a caller; it returns how many requests it has ended of the caller's own, for which
// no other thread waits.
template <class Step>
void PostOffice::step(const Step& step) {
  Leftover left;
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t before = core_.completions();
    const std::uint64_t own = step();
    left = settle(before + own);
  }
  left.wake = left.wake && busy();
  if (left.flush || left.wake) leave_to_driver(left);
}

// Runs a step of the driving thread; whether frames are to go over links.
template <class Step>
bool PostOffice::drive(const Step& step) {
  Leftover left;
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t before = core_.completions();
    step();
    left = settle(before);
  }
  // Waiters but the one that drives look only when the driver lets go; the driver may be none.
  if (left.wake && busy()) executor_->defer([] {});
  return left.flush;
}

// The links are the driving thread's: this one's, if nobody drives; then no thread sleeps that
// would have to be woken. Otherwise whoever drives lets go for a moment, whereupon those who sleep
// look again.
void PostOffice::leave_to_driver(Leftover left) {
  const bool driven = executor_->drive_inline([&](bool) {
    if (left.flush) flush();
    return true;
  });
  if (driven) return;
  const auto task = [self = shared_from_this(), left] {
    if (left.flush) self->flush();
    if (left.wake) self->executor_->defer([] {});
  };
  executor_->submit(task, true);
}

void PostOffice::flush() {
  MailOutgoing outgoing = std::exchange(outgoing_, {});
  {
    const std::lock_guard lock(mutex_);
    ways_.take_outgoing(outgoing);
  }
  for (auto& [rank, frame] : outgoing) {
    if (network_ != nullptr) network_->send_mail(rank, std::move(frame));
  }
  outgoing.clear();
  outgoing_ = std::move(outgoing);
}

// ---- what the group says -------------------------------------------------------------------

void PostOffice::set_network(MailNetwork* network) { network_ = network; }

void PostOffice::seat(Rank rank) {
  const std::optional<Bell> bell = network_->bell_of(rank);
  MailMeter* const meter = network_->meter_of(rank);
  drive([&] {
    ways_.seat(rank, bell);
    if (MailPeer* const peer = core_.peer(rank)) peer->set_meter(meter);
  });
}

void PostOffice::on_gone(Rank rank, bool died, const Status& why) {
  drive([&] { ways_.on_gone(rank, died, why); });
}

void PostOffice::end(const Status& why) {
  drive([&] { ways_.end(why); });
}

void PostOffice::relink(Rank rank) {
  const std::optional<Bell> bell = network_->bell_of(rank);
  drive([&] { ways_.relink(rank, bell); });
}

void PostOffice::hear(Rank from, std::span<const std::byte> frame) {
  drive([&] { ways_.hear(from, frame); });
}

bool PostOffice::progress() {
  bool moved = false;
  if (drive([&] { moved = ways_.progress(); })) {
    flush();
    moved = true;
  }
  return moved;
}

MemoryPoll PostOffice::poll_memory() {
  bool moved = false;
  drive([&] { moved = ways_.progress(); });
  return {moved, !turns_.load(std::memory_order_relaxed)};
}

// ---- calls ---------------------------------------------------------------------------------

Status PostOffice::open(ContextId context, std::span<const Rank> members) {
  const std::lock_guard lock(mutex_);
  return core_.open(context, members);
}

void PostOffice::close(ContextId context) {
  step([&] {
    core_.close(context);
    return 0U;
  });
}

void PostOffice::send(MailRequest& request, const MailSend& message) {
  step([&] {
    core_.send(request, message);
    return request.is_done() ? 1U : 0U;
  });
}

void PostOffice::receive(MailRequest& request, const MailPattern& pattern, const MailRoom& room) {
  step([&] {
    core_.receive(request, pattern, room);
    return request.is_done() ? 1U : 0U;
  });
}

void PostOffice::receive_matched(MailRequest& request, MatchedMail& message, const MailRoom& room) {
  CHECK(message);
  auto& mail = *static_cast<KeptMail*>(message.message());
  message = {};
  step([&] {
    core_.receive_matched(request, mail, room);
    return request.is_done() ? 1U : 0U;
  });
}

Result<std::optional<MailEnvelope>> PostOffice::probe(const MailPattern& pattern) {
  poll();
  const std::lock_guard lock(mutex_);
  const auto found = core_.probe(pattern, false);
  if (!found.is_ok()) return found.status();
  if (found.value() == nullptr) return std::optional<MailEnvelope>{};
  return std::optional(found.value()->envelope);
}

Result<MatchedMail> PostOffice::match(const MailPattern& pattern) {
  poll();
  const std::lock_guard lock(mutex_);
  const auto found = core_.probe(pattern, true);
  if (!found.is_ok()) return found.status();
  if (found.value() == nullptr) return MatchedMail{};
  return MatchedMail(found.value(), found.value()->envelope);
}

// Looks again whenever there are news, until it finds something, or the time has passed.
template <class Look>
auto PostOffice::wait_found(const Look& look, Duration timeout) {
  const Instant deadline = clock_->now() + std::min(timeout, kForever);
  probers_.fetch_add(1, std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t seen = news_.load(std::memory_order_acquire);
    auto found = look();
    const auto has_news = [&] { return news_.load(std::memory_order_acquire) != seen; };
    if (!found.is_ok() || found.value() || !wait_until(has_news, deadline - clock_->now())) {
      probers_.fetch_sub(1, std::memory_order_relaxed);
      return found;
    }
  }
}

Result<std::optional<MailEnvelope>> PostOffice::wait_probe(const MailPattern& pattern,
                                                           Duration timeout) {
  return wait_found([&] { return probe(pattern); }, timeout);
}

Result<MatchedMail> PostOffice::wait_match(const MailPattern& pattern, Duration timeout) {
  return wait_found([&] { return match(pattern); }, timeout);
}

bool PostOffice::cancel(MailRequest& request) {
  bool cancelled = false;
  step([&] {
    cancelled = core_.cancel(request);
    return 0U;  // another thread may wait for the request
  });
  return cancelled;
}

void PostOffice::poll() {
  bool links = false;
  std::uint32_t tests = 0;
  step([&] {
    ways_.progress();
    links = !ways_.all_ringed();
    tests = ++tests_;
    return 0U;
  });
  // What drives the links looks at them once in a few calls.
  if (links) executor_->drive_inline([](bool) { return true; });
  if (!executor_->has_cores() || tests % kTestsPerYield == 0) sched_yield();
}

bool PostOffice::test(MailRequest& request) {
  if (request.is_done()) return true;
  poll();
  return request.is_done();
}

// `own`: requests that end when done() begins to hold, for which no other thread waits.
template <class Done>
bool PostOffice::wait_until(const Done& done, Duration timeout, std::uint64_t own) {
  if (done()) return true;
  const bool spins = executor_->has_cores();
  const int looks = timeout <= Duration::zero() ? 1 : spins ? kMailSpins : kMailYields;
  for (int look = 0; look < looks; ++look) {
    step([&] {
      ways_.progress();
      return done() ? own : 0;
    });
    if (done()) return true;
    spins ? relax() : static_cast<void>(sched_yield());
  }
  if (timeout <= Duration::zero()) return false;
  const Instant deadline = clock_->now() + std::min(timeout, kForever);
  waiters_.fetch_add(1, std::memory_order_relaxed);
  {
    // Empty on purpose: what was done under the lock before is seen below, and who does it later
    // sees that this thread waits.
    const std::lock_guard lock(mutex_);
  }
  executor_->drive_until(done, deadline);
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return done();
}

// This thread waits until all requests are done. Tells the receivers of large messages among them,
// if it has a core for that and receives nothing large itself, and returns who they are.
std::vector<Rank> PostOffice::begin_attending(std::span<MailRequest* const> requests) {
  std::vector<Rank> ranks;
  if (!executor_->has_cores()) return ranks;
  for (const MailRequest* request : requests) {
    // What a request is, and its room, do not change while it is active.
    if (!is_active(request)) continue;
    if (request->kind == MailRequest::Kind::kRecv) {
      if (request->room.size() >= kLeastAttended) return {};
      continue;
    }
    if (request->bytes < kLeastAttended) continue;
    if (std::find(ranks.begin(), ranks.end(), request->peer) == ranks.end()) {
      ranks.push_back(request->peer);
    }
  }
  if (ranks.empty()) return ranks;
  const std::lock_guard lock(mutex_);
  for (const Rank rank : ranks) ways_.attend(rank, true);
  return ranks;
}

void PostOffice::end_attending(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return;
  const std::lock_guard lock(mutex_);
  for (const Rank rank : ranks) ways_.attend(rank, false);
}

bool PostOffice::wait(MailRequest& request, Duration timeout) {
  MailRequest* const only = &request;
  const std::vector<Rank> attended = begin_attending({&only, 1});
  const bool done = wait_until([&] { return request.is_done(); }, timeout, 1);
  end_attending(attended);
  return done;
}

bool PostOffice::wait_all(std::span<MailRequest* const> requests, Duration timeout) {
  std::size_t first = 0;  // all before it are done
  const auto all_done = [&] {
    while (first < requests.size() && !is_active(requests[first])) ++first;
    return first == requests.size();
  };
  const std::vector<Rank> attended = begin_attending(requests);
  const bool done = wait_until(all_done, timeout);
  end_attending(attended);
  return done;
}

std::optional<std::size_t> PostOffice::wait_any(std::span<MailRequest* const> requests,
                                                Duration timeout) {
  std::optional<std::size_t> found;
  const auto any_done = [&] {
    const auto at = std::find_if(requests.begin(), requests.end(), [](const auto* request) {
      return request != nullptr && request->is_done();
    });
    if (at != requests.end()) found = static_cast<std::size_t>(at - requests.begin());
    return found.has_value();
  };
  wait_until(any_done, timeout);
  return found;
}

Mailbox::Backlog PostOffice::backlog() const {
  const std::lock_guard lock(mutex_);
  return core_.backlog();
}

}  // namespace holdfast::comm
