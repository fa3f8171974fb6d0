#include "runtime/rendezvous/doorman.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/forks.h"
#include "base/net/socket.h"
#include "runtime/relay/preface.h"

namespace holdfast::runtime {
namespace {

// Callers that have greeted and were not taken yet: the threads that move data stand still, or the
// callers come from a flood.
constexpr std::size_t kMostHeard = 1024;
// Ends that were witnessed and not looked at yet: each costs the check of a signature.
constexpr std::size_t kMostTestimonies = 64;
// Callers from relays that were not looked at yet.
constexpr std::size_t kMostAdmitted = 128;
// Until descriptors may be there again.
constexpr Duration kDescriptorPause = std::chrono::milliseconds(50);
// Callers turned away in a time of kLook that are a flood, and how long the listener is left alone
// between its callers then: the kernel keeps them, and a woken thread takes many. Each waking takes
// a core from a thread that moves data.
constexpr int kFlood = 32;
constexpr Duration kFloodPause = std::chrono::milliseconds(10);
// How often callers are looked at that say nothing: their time need not be kept more exactly.
constexpr Duration kLook = std::chrono::milliseconds(250);
constexpr int kAcceptsPerTurn = 64;

// Values of epoll's data that are no tickets.
constexpr std::uint64_t kListener = ~std::uint64_t{0};
constexpr std::uint64_t kInterrupt = kListener - 1;

bool add(int epoll, int fd, std::uint32_t events, std::uint64_t what) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<Doorman>> Doorman::start(int listener, const Rules& rules,
                                                std::function<void()> ring) {
  const int epoll = open_unforked([] { return ::epoll_create1(EPOLL_CLOEXEC); });
  const int interrupt = open_unforked([] { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); });
  const bool works = epoll >= 0 && interrupt >= 0 && add(epoll, interrupt, EPOLLIN, kInterrupt) &&
                     add(epoll, listener, EPOLLIN, kListener);
  if (!works) {
    close_unforked(epoll);
    close_unforked(interrupt);
    return Status{Code::kSystem, "no file descriptors left (see ulimit -n)"};
  }
  return std::unique_ptr<Doorman>(new Doorman(listener, epoll, interrupt, rules, std::move(ring)));
}

Doorman::Doorman(int listener, int epoll, int interrupt, const Rules& rules,
                 std::function<void()> ring)
    : listener_(listener),
      epoll_(epoll),
      interrupt_(interrupt),
      rules_(rules),
      ring_(std::move(ring)),
      room_(rules.seats),
      thread_([this] { work(); }) {}

Doorman::~Doorman() {
  stop();
  close_unforked(epoll_);
  close_unforked(interrupt_);
}

void Doorman::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(interrupt_, &one, sizeof one);
  thread_.join();
  unheard_.clear();
  const std::lock_guard lock(mutex_);
  heard_.clear();
  for (const int fd : std::exchange(admitted_, {})) close_unforked(fd);
}

void Doorman::admit(int fd) {
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    full = ends_ || admitted_.size() >= kMostAdmitted;
    if (!full) admitted_.push_back(fd);
  }
  if (full) return close_unforked(fd);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(interrupt_, &one, sizeof one);
}

// False: the doorman is to end.
bool Doorman::take_admitted() {
  std::uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = ::read(interrupt_, &ignored, sizeof ignored);
  std::vector<int> fds;
  {
    const std::lock_guard lock(mutex_);
    if (ends_) return false;
    fds.swap(admitted_);
  }
  for (const int fd : fds) {
    auto caller = std::make_unique<Handshake>(fd, clock_.now() + rules_.patience, rules_.sealer);
    caller->set_relayed();
    seat(std::move(caller), fd);
  }
  return true;
}

std::vector<std::unique_ptr<Handshake>> Doorman::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(heard_, {});
}

std::vector<secure::Testimony> Doorman::take_testimonies() {
  const std::lock_guard lock(mutex_);
  return std::exchange(testimonies_, {});
}

// relaxed: counts for people to read; nothing is ordered by them.
Doorman::Callers Doorman::callers() const {
  return {greeted_.load(std::memory_order_relaxed), turned_away_.load(std::memory_order_relaxed),
          gave_way_.load(std::memory_order_relaxed)};
}

void Doorman::work() {
  // Signals are for the program's own threads.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "holdfast-door");
  std::array<epoll_event, kAcceptsPerTurn> events;
  for (;;) {
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), pause());
    for (int i = 0; i < count; ++i) {
      const std::uint64_t what = events[static_cast<std::size_t>(i)].data.u64;
      if (what == kInterrupt && !take_admitted()) return;
      if (what == kInterrupt) continue;
      if (what == kListener) {
        accept_all();
      } else {
        look_at(what);
      }
    }
    look_at_time();
  }
}

// In milliseconds, as epoll_wait() takes it.
int Doorman::pause() const {
  if (unheard_.empty() && !rests_until_) return -1;
  Instant next = rests_until_.value_or(next_look_);
  if (!unheard_.empty()) next = std::min(next, next_look_);
  const Duration left = std::max(next - clock_.now(), Duration::zero());
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
}

void Doorman::accept_all() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    const int fd = accept_one(listener_);
    if (fd < 0) {
      const bool none_left = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
      if (!none_left) break;
      // Whoever has waited longest without a word makes room; the kernel keeps the next ones.
      if (unheard_.empty()) return rest(kDescriptorPause);
      make_way(unheard_.begin()->first);
      continue;
    }
    seat(std::make_unique<Handshake>(fd, clock_.now() + rules_.patience, rules_.sealer), fd);
  }
  if (is_flooded()) rest(kFloodPause);
}

void Doorman::seat(std::unique_ptr<Handshake> caller, int fd) {
  const WaitingRoom::Arrival entry = room_.enter(peer_address(fd));
  if (entry.gives_way) make_way(*entry.gives_way);
  if (unheard_.empty()) next_look_ = clock_.now() + kLook;
  unheard_.emplace(entry.ticket, std::move(caller));
  // Most callers have greeted by now, or are turned away. What comes after this look is told of.
  look_at(entry.ticket);
  if (!unheard_.contains(entry.ticket)) return;
  if (!add(epoll_, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, entry.ticket)) let_go(entry.ticket);
}

// Leaves the listener alone for a while.
void Doorman::rest(Duration time) {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr);
  rests_until_ = clock_.now() + time;
}

bool Doorman::is_flooded() const {
  const bool lately = clock_.now() - counted_since_ < 2 * kLook;
  return lately && std::max(refusals_, refusals_before_) >= kFlood;
}

void Doorman::count_refusal() {
  turned_away_.fetch_add(1, std::memory_order_relaxed);  // relaxed: as in callers()
  count_for_flood();
}

void Doorman::count_for_flood() {
  const Instant now = clock_.now();
  if (now - counted_since_ >= kLook) {
    refusals_before_ = now - counted_since_ < 2 * kLook ? refusals_ : 0;
    refusals_ = 0;
    counted_since_ = now;
  }
  ++refusals_;
}

void Doorman::look_at(WaitingRoom::Ticket ticket) {
  const auto at = unheard_.find(ticket);
  if (at == unheard_.end()) return;
  Handshake& caller = *at->second;
  if (rules_.sealer && hears_witness(ticket, caller.fd())) return;
  if ((rules_.relay || rules_.knock) && hears_relay(ticket, caller)) return;
  const Handshake::HandshakeState state = caller.step(clock_.now());
  if (state == Handshake::HandshakeState::kFailed) {
    count_refusal();
    note("refused", caller, caller.failure().message());
    return let_go(ticket);
  }
  if (!caller.has_hello()) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, caller.fd(), nullptr);
  std::unique_ptr<Handshake> greeted = std::move(at->second);
  let_go(ticket);
  greeted_.fetch_add(1, std::memory_order_relaxed);  // relaxed: as in callers()
  note("let in", *greeted, "");
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = heard_.empty();
    if (heard_.size() >= kMostHeard) heard_.erase(heard_.begin());
    heard_.push_back(std::move(greeted));
  }
  if (first) ring_();
}

// Whether the caller is no process of a job, but the witness of one's end: it says one thing, in
// one packet, and needs no answer.
bool Doorman::hears_witness(WaitingRoom::Ticket ticket, int fd) {
  std::array<std::byte, secure::kTestimonyBytes> said{};
  const ssize_t count = ::recv(fd, said.data(), said.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count <= 0) return false;
  const auto testimony = secure::parse_testimony(
      std::span<const std::byte>(said).first(static_cast<std::size_t>(count)));
  if (!testimony) return false;
  let_go(ticket);
  bool first_one = false;
  {
    const std::lock_guard lock(mutex_);
    first_one = testimonies_.empty();
    if (testimonies_.size() < kMostTestimonies) testimonies_.push_back(*testimony);
  }
  if (first_one) ring_();
  return true;
}

// Whether the caller speaks a relay's protocol, or is a relay that calls back: neither is to greet
// here. Who has said a part of that waits for its time to end like others.
bool Doorman::hears_relay(WaitingRoom::Ticket ticket, Handshake& caller) {
  std::array<std::byte, kKnockBytes> room{};
  const ssize_t count = ::recv(caller.fd(), room.data(), room.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count <= 0) return false;
  const auto said = std::span<const std::byte>(room).first(static_cast<std::size_t>(count));
  const auto begins = [&](const RelayMagic& magic) {
    const std::size_t known = std::min(said.size(), magic.size());
    return std::equal(magic.begin(), magic.begin() + static_cast<std::ptrdiff_t>(known),
                      said.begin());
  };
  const bool calls_back = rules_.knock && begins(kKnockMagic);
  const bool wants_relay = rules_.relay && begins(kRelayMagic);
  if (!calls_back && !wants_relay) return false;
  if (said.size() < (calls_back ? kKnockBytes : kRelayMagic.size())) {
    return clock_.now() < caller.deadline();
  }
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, caller.fd(), nullptr);
  if (calls_back) {
    rules_.knock(said);
  } else {
    rules_.relay(caller.take_connection().fd);
    count_for_flood();
  }
  let_go(ticket);
  return true;
}

void Doorman::look_at_time() {
  const Instant now = clock_.now();
  if (rests_until_ && now >= *rests_until_) {
    rests_until_.reset();
    add(epoll_, listener_, EPOLLIN, kListener);
  }
  if (now < next_look_ || unheard_.empty()) return;
  next_look_ = now + kLook;
  std::vector<WaitingRoom::Ticket> all;
  all.reserve(unheard_.size());
  for (const auto& [ticket, caller] : unheard_) all.push_back(ticket);
  for (const WaitingRoom::Ticket ticket : all) look_at(ticket);
}

void Doorman::make_way(WaitingRoom::Ticket ticket) {
  gave_way_.fetch_add(1, std::memory_order_relaxed);  // relaxed: as in callers()
  const auto at = unheard_.find(ticket);
  if (at != unheard_.end()) note("refused", *at->second, "said nothing, and gave way to others");
  let_go(ticket);
}

void Doorman::note(const char* event, const Handshake& caller, const std::string& why) {
  if (rules_.audit) rules_.audit->write(event, peer_address(caller.fd()), caller.facts(), why);
}

void Doorman::let_go(WaitingRoom::Ticket ticket) {
  room_.leave(ticket);
  const auto at = unheard_.find(ticket);
  if (at == unheard_.end()) return;
  // Where a forked child has the descriptor, too, closing alone does not remove it.
  if (at->second) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, at->second->fd(), nullptr);
  unheard_.erase(at);
}

}  // namespace holdfast::runtime
