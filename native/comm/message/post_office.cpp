#include "comm/message/post_office.h"

#include <sched.h>

#include <algorithm>

namespace holdfast::comm {
namespace {

// Looks of a caller that waits before it drives the runtime: where each rank has a core of its own
// it spins, else it yields.
constexpr int kMailSpins = 300;
constexpr int kMailYields = 16;
// A caller that tests in a loop lets others run once in so many calls.
constexpr std::uint32_t kTestsPerYield = 32;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

PostOffice::PostOffice(Rank self, int size, const MailLimits& limits,
                       std::shared_ptr<Executor> executor, std::shared_ptr<const Clock> clock)
    : executor_(std::move(executor)),
      clock_(std::move(clock)),
      core_(self, size, limits),
      ways_(core_, memory_) {}

// After a step, under the lock: wakes the other ranks, and says what is left to be done.
PostOffice::Leftover PostOffice::settle(std::uint64_t completions_before) {
  ways_.ring_bells();
  // relaxed: written under the lock alone
  if (news_.load(std::memory_order_relaxed) != core_.news()) {
    // release: pairs with the acquire of who waits for news
    news_.store(core_.news(), std::memory_order_release);
  }
  turns_.store(ways_.is_stirred() || !ways_.all_ringed(), std::memory_order_relaxed);
  return {ways_.is_stirred(), core_.completions() != completions_before};
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

// The links are the driving thread's: this one's, if nobody drives.
void PostOffice::leave_to_driver(Leftover left) {
  const bool driven = executor_->drive_inline([&](bool) {
    flush();
    return true;
  });
  if (driven && !left.wake) return;
  executor_->submit([self = shared_from_this()] { self->flush(); }, true);
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
  drive([&] { ways_.seat(rank, bell); });
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

Result<std::optional<MailEnvelope>> PostOffice::wait_probe(const MailPattern& pattern,
                                                           Duration timeout) {
  const Instant deadline = clock_->now() + timeout;
  for (;;) {
    const std::uint64_t seen = news_.load(std::memory_order_acquire);
    auto found = probe(pattern);
    if (!found.is_ok() || found.value()) return found;
    const auto has_news = [&] { return news_.load(std::memory_order_acquire) != seen; };
    if (!wait_until(has_news, deadline - clock_->now())) return found;
  }
}

Result<MatchedMail> PostOffice::wait_match(const MailPattern& pattern, Duration timeout) {
  const Instant deadline = clock_->now() + timeout;
  for (;;) {
    const std::uint64_t seen = news_.load(std::memory_order_acquire);
    auto found = match(pattern);
    if (!found.is_ok() || found.value()) return found;
    const auto has_news = [&] { return news_.load(std::memory_order_acquire) != seen; };
    if (!wait_until(has_news, deadline - clock_->now())) return found;
  }
}

bool PostOffice::cancel(MailRequest& request) {
  bool cancelled = false;
  step([&] {
    cancelled = core_.cancel(request);
    return cancelled ? 1U : 0U;
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

template <class Done>
bool PostOffice::wait_until(const Done& done, Duration timeout) {
  if (done()) return true;
  const bool spins = executor_->has_cores();
  const int looks = timeout <= Duration::zero() ? 1 : spins ? kMailSpins : kMailYields;
  for (int look = 0; look < looks; ++look) {
    step([&] {
      ways_.progress();
      return 0U;
    });
    if (done()) return true;
    spins ? relax() : static_cast<void>(sched_yield());
  }
  if (timeout <= Duration::zero()) return false;
  const Instant deadline = clock_->now() + std::min(timeout, kForever);
  // relaxed: whoever ends a request looks again, see step()
  waiters_.fetch_add(1, std::memory_order_relaxed);
  executor_->drive_until(done, deadline);
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return done();
}

bool PostOffice::wait(MailRequest& request, Duration timeout) {
  return wait_until([&] { return request.is_done(); }, timeout);
}

bool PostOffice::wait_all(std::span<MailRequest* const> requests, Duration timeout) {
  std::size_t first = 0;  // all before it are done
  const auto all_done = [&] {
    const auto is_active = [](const MailRequest* request) {
      // acquire: as is_done()
      return request != nullptr &&
             request->state.load(std::memory_order_acquire) == MailRequest::State::kActive;
    };
    while (first < requests.size() && !is_active(requests[first])) ++first;
    return first == requests.size();
  };
  return wait_until(all_done, timeout);
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
