#include "runtime/relay/relay_client.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/forks.h"

namespace holdfast::runtime {
namespace {

// Mappings of NATs are forgotten after 30 s and more (RFC 4787 asks for 2 min of UDP); some bad
// ones after less.
constexpr Duration kSignOfLife = std::chrono::seconds(2);
// A mapping that is lost is noticed when something is said: soon, while somebody may be calling.
constexpr Duration kHurriedSign = std::chrono::milliseconds(250);
constexpr Duration kNoAnswer = std::chrono::seconds(6);
// A relay answers within this time; a call waits a little longer than the relay lets it.
constexpr Duration kRelayTime = std::chrono::seconds(5);
constexpr Duration kCallTime = std::chrono::seconds(7);
// A call back that has not come by then does not come.
constexpr Duration kKnockWait = std::chrono::milliseconds(1500);
constexpr Duration kAfterFailure = std::chrono::milliseconds(500);
// While a member cannot be called, it may have moved to where it can be.
constexpr Duration kAskAgain = std::chrono::seconds(30);
constexpr int kLongestWaitMs = 250;
// Calls and pick-ups under way.
constexpr std::size_t kMostJobs = 128;

}  // namespace

Result<std::unique_ptr<RelayClient>> RelayClient::start(Self self, std::function<void()> ring) {
  const int interrupt = open_unforked([] { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); });
  if (interrupt < 0) return Status{Code::kSystem, "no file descriptors left (see ulimit -n)"};
  return std::unique_ptr<RelayClient>(new RelayClient(std::move(self), interrupt, std::move(ring)));
}

RelayClient::RelayClient(Self self, int interrupt, std::function<void()> ring)
    : self_(std::move(self)),
      interrupt_(interrupt),
      ring_(std::move(ring)),
      thread_([this] { work(); }) {}

RelayClient::~RelayClient() {
  stop();
  close_unforked(interrupt_);
}

void RelayClient::stop() {
  if (!thread_.joinable()) return;
  stops_.store(true, std::memory_order_relaxed);  // relaxed: the eventfd orders it
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(interrupt_, &one, sizeof one);
  thread_.join();
  for (const auto& job : jobs_) close_unforked(job->fd);
  jobs_.clear();
  for (const Crossing& crossing : take()) close_unforked(crossing.fd);
}

void RelayClient::set_relays(std::vector<Endpoint> relays) {
  {
    const std::lock_guard lock(mutex_);
    new_relays_ = std::move(relays);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(interrupt_, &one, sizeof one);
}

void RelayClient::call(MemberId peer) {
  {
    const std::lock_guard lock(mutex_);
    wanted_.insert(peer);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(interrupt_, &one, sizeof one);
}

void RelayClient::set_needed(bool needed, bool hurried) {
  const std::lock_guard lock(mutex_);
  needed_ = needed;
  hurried_ = hurried;
}

std::vector<Crossing> RelayClient::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(crossings_, {});
}

Status RelayClient::await_called(Duration patience) {
  std::unique_lock lock(mutex_);
  known_.wait_for(lock, patience, [this] {
    return called() != CalledBy::kUnknown || trouble_.code() == Code::kConfigError;
  });
  const bool hopeless = called() == CalledBy::kUnknown && trouble_.code() == Code::kConfigError;
  return hopeless ? trouble_ : Status::ok();
}

Status RelayClient::take_trouble() {
  const std::lock_guard lock(mutex_);
  if (told_ || trouble_.is_ok()) return Status::ok();
  told_ = true;
  return trouble_;
}

bool RelayClient::hear_knock(std::span<const std::byte> said) {
  if (said.size() < kKnockBytes || !std::ranges::equal(said.first(kKnockMagic.size()), kKnockMagic))
    return false;
  const auto nonce = said.subspan(kKnockMagic.size(), sizeof(RelayTicket));
  bool own = false;
  {
    const std::lock_guard lock(mutex_);
    own = awaited_ != RelayTicket{} && secure::same_bytes(nonce, awaited_);
  }
  if (own) set_called(CalledBy::kDirectly);
  return true;
}

void RelayClient::set_called(CalledBy called) {
  {
    const std::lock_guard lock(mutex_);
    called_.store(called, std::memory_order_relaxed);  // relaxed: alone
  }
  known_.notify_all();
}

void RelayClient::work() {
  // Signals are for the program's own threads.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "holdfast-reach");
  while (!stops_.load(std::memory_order_relaxed)) {  // as in stop()
    const Instant now = clock_.now();
    take_orders(now);
    find_out(now);
    keep_registered(now);
    for (std::size_t i = 0; i < jobs_.size();) {
      if (step(*jobs_[i], now)) {
        ++i;
        continue;
      }
      close_unforked(jobs_[i]->fd);
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    tell_trouble();
    wait();
  }
}

// Until a socket is ready, or something may be due.
void RelayClient::wait() {
  std::vector<pollfd> all{{interrupt_, POLLIN, 0}};
  for (const auto& job : jobs_) {
    const bool writes = job->connecting || !job->out.empty();
    all.push_back({job->fd, static_cast<short>(writes ? POLLOUT : POLLIN), 0});
  }
  ::poll(all.data(), all.size(), kLongestWaitMs);
  std::uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = ::read(interrupt_, &ignored, sizeof ignored);
}

void RelayClient::take_orders(Instant now) {
  std::optional<std::vector<Endpoint>> relays;
  std::set<MemberId> wanted;
  {
    const std::lock_guard lock(mutex_);
    relays.swap(new_relays_);
    wanted.swap(wanted_);
    needed_here_ = needed_;
    hurried_here_ = hurried_;
  }
  if (relays) relays_.set(*relays);
  for (const MemberId peer : wanted) {
    const bool under_way = std::ranges::any_of(jobs_, [&](const auto& job) {
      const Preface& preface = job->call.preface();
      return preface.wish == RelayWish::kCall && preface.wanted == peer;
    });
    if (relays_.empty() || under_way) continue;
    Preface preface;
    preface.wish = RelayWish::kCall;
    preface.wanted = peer;
    begin(std::move(preface), relays_.best().at, now);
  }
}

// Asks a relay to call back, until it is known.
void RelayClient::find_out(Instant now) {
  if (called() == CalledBy::kDirectly) return;
  if (knock_due_ && now >= *knock_due_) {
    knock_due_.reset();
    next_ask_ = now + kAskAgain;
    if (called() == CalledBy::kUnknown) set_called(CalledBy::kByRelay);
  }
  if (asks_ || knock_due_ || now < next_ask_ || relays_.empty()) return;
  Preface preface;
  preface.wish = RelayWish::kKnock;
  if (::getrandom(nonce_.data(), nonce_.size(), 0) != static_cast<ssize_t>(nonce_.size())) return;
  {
    const std::lock_guard lock(mutex_);
    awaited_ = nonce_;
  }
  preface.ticket = nonce_;
  preface.port = self_.port;
  preface.addresses = self_.addresses;
  if (preface.addresses.size() > kMaxKnockAddresses) preface.addresses.resize(kMaxKnockAddresses);
  next_ask_ = now + kAfterFailure;
  asks_ = begin(std::move(preface), relays_.next().at, now);
}

void RelayClient::keep_registered(Instant now) {
  const bool wanted = needed_here_ || called() == CalledBy::kByRelay;
  for (KnownRelay& relay : relays_.all()) {
    const bool under_way = std::ranges::any_of(jobs_, [&](const auto& job) {
      return job->call.preface().wish == RelayWish::kRegister &&
             job->at.address == relay.at.address && job->at.port == relay.at.port;
    });
    if (!wanted || under_way || now < relay.not_before) continue;
    relay.not_before = now + kAfterFailure;
    begin({}, relay.at, now);
  }
}

bool RelayClient::begin(Preface preface, const Endpoint& at, Instant now) {
  const auto failed = [&](const Status& why) {
    relays_.note_failure(at, why);
    return false;
  };
  if (jobs_.size() >= kMostJobs) return false;
  auto token = self_.sealer->token();
  if (!token.is_ok()) return failed(token.status());
  auto fd = start_connect(at);
  if (!fd.is_ok()) return failed(fd.status());
  preface.self = self_.member;
  const Duration time = preface.wish == RelayWish::kCall ? kCallTime : kRelayTime;
  std::unique_ptr<Job> job(
      new Job{RelayCall(std::move(preface), std::move(token).value()), fd.value(), at, now + time});
  job->out = job->call.take_out();
  jobs_.push_back(std::move(job));
  return true;
}

bool RelayClient::step(Job& job, Instant now) {
  if (job.connecting) {
    pollfd look{job.fd, POLLOUT, 0};
    if (::poll(&look, 1, 0) > 0) {
      const Status status = connect_outcome(job.fd, job.at);
      if (!status.is_ok()) return fail(job, status, now);
      job.connecting = false;
    }
  }
  if (!job.connecting && !send(job)) {
    return fail(job, {Code::kPeerLost, std::string("send: ") + std::strerror(errno)}, now);
  }
  if (!job.connecting && !job.stands && !read_verdict(job, now)) return false;
  if (job.stands && !keep(job, now)) return false;
  if (now < job.deadline) return true;
  return fail(job, {Code::kTimeout, "no answer in time"}, now);
}

bool RelayClient::send(Job& job) {
  while (!job.out.empty()) {
    const ssize_t sent =
        ::send(job.fd, job.out.data(), job.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    job.out.erase(job.out.begin(), job.out.begin() + sent);
  }
  return true;
}

// False: the job has ended, well or not.
bool RelayClient::read_verdict(Job& job, Instant now) {
  std::array<std::byte, 512> said;
  while (const std::size_t wants = std::min(job.call.wants(), said.size())) {
    const ssize_t got = ::recv(job.fd, said.data(), wants, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return fail(job, job.call.ended(), now);
    const Status heard = job.call.hear(std::span(said).first(static_cast<std::size_t>(got)));
    if (!heard.is_ok()) return fail(job, heard, now);
    auto more = job.call.take_out();
    job.out.insert(job.out.end(), more.begin(), more.end());
    if (!send(job)) return fail(job, job.call.ended(), now);
  }
  return end_call(job, now);
}

bool RelayClient::end_call(Job& job, Instant now) {
  KnownRelay* relay = relays_.find(job.at);
  const Preface& preface = job.call.preface();
  const bool done = job.call.verdict() == RelayVerdict::kDone;
  const bool absent = job.call.verdict() == RelayVerdict::kAbsent;
  if (!done && !absent) {
    return fail(job, {Code::kAuthFailed, "the relay refuses this process: " + job.call.reason()},
                now);
  }
  // A relay that knows nobody by that name is a relay that works.
  if (relay != nullptr) {
    relay->failure = Status::ok();
    relay->failed = false;
  }
  if (preface.wish == RelayWish::kKnock) {
    asks_ = false;
    knock_due_ = now + kKnockWait;
    return false;
  }
  if (!done) return false;
  if (preface.wish == RelayWish::kRegister) {
    job.stands = true;
    if (relay != nullptr) relay->registered = true;
    job.deadline = now + kNoAnswer;
    job.next_sign = now + kSignOfLife;
    return true;
  }
  hand_over({std::exchange(job.fd, -1), preface.wanted, preface.wish == RelayWish::kCall, job.at});
  return false;
}

// A registration: signs of life, and what the relay tells.
bool RelayClient::keep(Job& job, Instant now) {
  if (hurried_here_) job.next_sign = std::min(job.next_sign, job.last_sign + kHurriedSign);
  if (now >= job.next_sign) {
    job.last_sign = now;
    job.next_sign = now + kSignOfLife;
    if (job.out.empty()) job.out.push_back(kRelayLives);
    if (!send(job)) return fail(job, {Code::kPeerLost, "the connection to the relay broke"}, now);
  }
  std::array<std::byte, 1024> said;
  for (;;) {
    const ssize_t got = ::recv(job.fd, said.data(), said.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return fail(job, {Code::kPeerLost, "the connection to the relay broke"}, now);
    job.deadline = now + kNoAnswer;
    const auto notes = job.notes.hear(std::span(said).first(static_cast<std::size_t>(got)));
    if (!notes.is_ok()) return fail(job, notes.status(), now);
    for (const RelayNotes::TicketNote& note : notes.value()) {
      pick_up(job, note.caller, note.ticket, now);
    }
  }
}

void RelayClient::pick_up(const Job& job, MemberId caller, const RelayTicket& ticket, Instant now) {
  Preface preface;
  preface.wish = RelayWish::kPickUp;
  preface.wanted = caller;
  preface.ticket = ticket;
  begin(std::move(preface), Endpoint(job.at), now);
}

bool RelayClient::fail(Job& job, const Status& why, Instant now) {
  const RelayWish wish = job.call.preface().wish;
  if (wish == RelayWish::kKnock) asks_ = false;
  KnownRelay* relay = relays_.find(job.at);
  if (relay == nullptr) return false;
  if (wish == RelayWish::kRegister) {
    relay->registered = false;
    // A registration that has stood is made anew at once.
    relay->not_before = job.stands ? now : now + kAfterFailure;
  }
  if (!job.stands) relays_.note_failure(job.at, why);
  return false;
}

void RelayClient::hand_over(Crossing crossing) {
  {
    const std::lock_guard lock(mutex_);
    crossings_.push_back(std::move(crossing));
  }
  ring_();
}

void RelayClient::tell_trouble() {
  const Status trouble = relays_.trouble();
  {
    const std::lock_guard lock(mutex_);
    if (trouble.message() == trouble_.message()) return;
    trouble_ = trouble;
    told_ = false;
  }
  known_.notify_all();
  if (!trouble.is_ok()) ring_();
}

}  // namespace holdfast::runtime
