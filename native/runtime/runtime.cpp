#include "runtime/runtime.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace holdfast::runtime {
namespace {

using comm::FrameKind;

// A caller has this long to greet.
constexpr Duration kGreetingTime = std::chrono::seconds(10);
constexpr Duration kRetryPause = std::chrono::milliseconds(50);
// Connections that have not greeted yet; more wait in the kernel's queue.
constexpr std::size_t kMaxHandshakes = 1024;
constexpr std::size_t kMaxEarly = 256;

}  // namespace

Runtime::Runtime(Parts parts) : parts_(std::move(parts)), driver_(*this, own_bell(), parts_.clock) {
  watch(parts_.listener, EPOLLIN, nullptr);
  watch(parts_.interrupt, EPOLLIN, nullptr);
  count_local_ranks();
}

Runtime::~Runtime() {
  stop();
  for (const int fd : {parts_.listener, parts_.epoll, parts_.interrupt}) ::close(fd);
}

void Runtime::stop() { driver_.stop_thread(); }

comm::Bell Runtime::own_bell() const {
  return comm::Bell(reinterpret_cast<comm::BellWords*>(parts_.bell.data()));
}

bool Runtime::may_use(const std::string& transport) const {
  const auto& allowed = parts_.options.transports;
  return std::find(allowed.begin(), allowed.end(), transport) != allowed.end();
}

void Runtime::watch(int fd, std::uint32_t events, void* tag) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = tag;
  ::epoll_ctl(parts_.epoll, EPOLL_CTL_ADD, fd, &event);
}

void Runtime::interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(parts_.interrupt, &one, sizeof one);
}

void Runtime::poll_sockets(Duration timeout) {
  constexpr int kEvents = 64;
  std::array<epoll_event, kEvents> events;
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(
      timeout + std::chrono::microseconds(999));
  const int count =
      ::epoll_wait(parts_.epoll, events.data(), kEvents, static_cast<int>(wait.count()));
  bool callers = false;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    auto* link = static_cast<comm::TcpLink*>(event.data.ptr);
    if (link == nullptr) {
      callers = true;
      continue;
    }
    if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) link->set_readable();
    if ((event.events & EPOLLOUT) != 0) link->set_writable();
  }
  if (!callers) return;
  std::uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = ::read(parts_.interrupt, &ignored, sizeof ignored);
  accept_callers(parts_.clock->now());
}

bool Runtime::busy() const {
  if (!handshakes_.empty() || !attempts_.empty()) return true;
  return std::any_of(communicators_.begin(), communicators_.end(), [](const auto& weak) {
    const auto communicator = weak.lock();
    return communicator && communicator->busy();
  });
}

bool Runtime::latency_bound() const {
  return std::none_of(communicators_.begin(), communicators_.end(), [](const auto& weak) {
    const auto communicator = weak.lock();
    return communicator && communicator->moves_bulk();
  });
}

Instant Runtime::next_deadline() const {
  Instant next{Duration::max()};
  for (const auto& weak : communicators_) {
    if (const auto c = weak.lock(); c && c->busy()) next = std::min(next, c->next_deadline());
  }
  if (handshakes_.empty() && attempts_.empty()) return next;
  return std::min(next, parts_.clock->now() + std::chrono::milliseconds(10));
}

bool Runtime::turn(Instant now) {
  bool moved = false;
  if (!handshakes_.empty() || !attempts_.empty()) step_handshakes(now);
  for (auto& [id, peer] : peers_) moved = pump_peer(*peer) || moved;
  std::erase_if(communicators_, [](const auto& weak) { return weak.expired(); });
  // By index: progress() may not add communicators, but costs of copying the list are not worth it.
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    if (const auto c = communicators_[i].lock()) moved = c->progress(now) || moved;
  }
  return moved;
}

bool Runtime::pump_peer(Peer& peer) {
  if (peer.reported) return false;
  bool moved = peer.control->pump();
  if (peer.shm) moved = peer.shm->pump() || moved;
  take_controls(peer);
  if (!peer.control->status().is_ok() || !peer.data().status().is_ok()) report_loss(peer);
  return moved;
}

void Runtime::take_controls(Peer& peer) {
  while (auto frame = peer.control->session().take_control()) {
    const CommId id = frame->header.key.comm;
    if (frame->header.kind == FrameKind::kGoodbye && id == CommId{}) {
      peer.control->set_peer_left();
      continue;
    }
    std::shared_ptr<comm::LiveCommunicator> target;
    for (const auto& weak : communicators_) {
      if (const auto c = weak.lock(); c && c->id() == id) target = c;
    }
    if (target == nullptr) {
      if (early_.size() < kMaxEarly) early_.push_back({peer.id, std::move(*frame)});
      continue;
    }
    const auto& members = target->view().members;
    const auto at = std::find(members.begin(), members.end(), peer.id);
    if (at == members.end()) continue;
    const Rank from{static_cast<int>(at - members.begin())};
    deliver(*target, from, *frame);
  }
}

void Runtime::deliver(comm::LiveCommunicator& to, Rank from, const comm::ControlFrame& frame) {
  switch (frame.header.kind) {
    case FrameKind::kRevoke: return to.on_revoke(from, frame.payload);
    case FrameKind::kCall: return to.on_call(from, frame.payload);
    case FrameKind::kGoodbye:
      return to.on_gone(from, comm::LiveCommunicator::Gone::kLeft,
                        {Code::kPeerLost, "rank " + std::to_string(from.value) + " has left"});
    default: return;
  }
}

void Runtime::report_loss(Peer& peer) {
  peer.reported = true;
  const Status& control = peer.control->status();
  const Status& why = control.is_ok() ? peer.data().status() : control;
  for (const auto& weak : communicators_) {
    const auto c = weak.lock();
    if (!c) continue;
    const auto& members = c->view().members;
    const auto at = std::find(members.begin(), members.end(), peer.id);
    if (at == members.end()) continue;
    c->on_gone(Rank{static_cast<int>(at - members.begin())}, comm::LiveCommunicator::Gone::kDied,
               why);
  }
}

Peer* Runtime::find_peer(MemberId id) {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.get();
}

Status Runtime::connect_failure(MemberId id) const {
  const auto found = connect_failures_.find(id);
  return found == connect_failures_.end() ? Status::ok() : found->second;
}

// The member with the larger id calls, so that two never call each other.
void Runtime::connect(const Card& card, Instant deadline) {
  if (card.member == parts_.self || peers_.contains(card.member)) return;
  if (parts_.self < card.member || attempts_.contains(card.member)) return;
  attempts_.emplace(card.member, Attempt{card, 0, deadline, {}});
}

void Runtime::call(Attempt& attempt, Instant now) {
  const bool same_host = attempt.card.host == parts_.host;
  Greeting hello{parts_.self, attempt.card.member, {}, {}};
  if (same_host && attempt.card.shm && may_use("shm") && parts_.bell.name().size() > 0) {
    auto segment = comm::Segment::create("link", comm::kShmLinkBytes);
    if (segment.is_ok()) {
      hello.bell = parts_.bell.name();
      hello.link = segment.value().name();
      offered_[attempt.card.member] = std::move(segment).value();
    }
  }
  std::vector<std::string> addresses = attempt.card.addresses;
  if (same_host) std::rotate(addresses.begin(), addresses.end() - 1, addresses.end());
  const Endpoint to{addresses[attempt.next_address % addresses.size()], attempt.card.port};
  ++attempt.next_address;
  attempt.not_before = now + kGreetingTime + kRetryPause;
  auto fd = start_connect(to);
  if (!fd.is_ok()) {
    connect_failures_[attempt.card.member] = fd.status();
    attempt.not_before = now + kRetryPause;
    return;
  }
  handshakes_.push_back(std::make_unique<Handshake>(fd.value(), to, hello, now + kGreetingTime));
  watch(fd.value(), EPOLLIN | EPOLLOUT | EPOLLET, nullptr);
}

void Runtime::accept_callers(Instant now) {
  while (handshakes_.size() < kMaxHandshakes) {
    const int fd = accept_one(parts_.listener);
    if (fd < 0) return;
    watch(fd, EPOLLIN | EPOLLET, nullptr);
    handshakes_.push_back(std::make_unique<Handshake>(fd, now + kGreetingTime));
  }
}

void Runtime::step_handshakes(Instant now) {
  for (auto& [member, attempt] : attempts_) {
    if (now >= attempt.not_before && now < attempt.deadline) call(attempt, now);
  }
  std::erase_if(attempts_, [&](const auto& a) { return now >= a.second.deadline; });
  for (std::size_t i = 0; i < handshakes_.size();) {
    Handshake& handshake = *handshakes_[i];
    Handshake::State state = handshake.step(now);
    if (state == Handshake::State::kPending && handshake.has_hello()) {
      answer(handshake);
      state = handshake.step(now);
    }
    if (state == Handshake::State::kPending) {
      ++i;
      continue;
    }
    if (state == Handshake::State::kReady) {
      establish(handshake);
    } else if (handshake.is_caller()) {
      const MemberId callee = handshake.hello().to;
      connect_failures_[callee] = handshake.failure();
      offered_.erase(callee);
      if (const auto a = attempts_.find(callee); a != attempts_.end()) {
        a->second.not_before = now + kRetryPause;
      }
    }
    handshakes_.erase(handshakes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Runtime::answer(Handshake& handshake) {
  const Greeting& hello = handshake.peer();
  if (hello.to != parts_.self || hello.from == parts_.self || peers_.contains(hello.from)) {
    handshake.refuse({Code::kAuthFailed, "a caller that looks for another process"});
    return;
  }
  Greeting welcome{parts_.self, hello.from, {}, {}};
  if (!hello.link.empty() && may_use("shm") && !parts_.bell.name().empty()) {
    auto link = comm::Segment::open(hello.link, comm::kShmLinkBytes);
    if (link.is_ok()) {
      offered_[hello.from] = std::move(link).value();
      welcome.link = hello.link;
      welcome.bell = parts_.bell.name();
    }
  }
  handshake.welcome(welcome);
}

void Runtime::establish(Handshake& handshake) {
  const Greeting& theirs = handshake.peer();
  auto peer = std::make_unique<Peer>();
  peer->id = theirs.from;
  const int fd = handshake.take_fd();
  ::epoll_ctl(parts_.epoll, EPOLL_CTL_DEL, fd, nullptr);
  peer->control = std::make_unique<comm::TcpLink>(fd);
  peer->same_host = is_same_host(fd);
  auto offer = offered_.extract(theirs.from);
  const bool agreed = handshake.is_caller() ? !theirs.link.empty() : !offer.empty();
  if (agreed && !offer.empty()) {
    comm::Segment segment = std::move(offer.mapped());
    segment.unlink();  // both sides have mapped it: nothing to leak any more
    auto bell = comm::Segment::open(theirs.bell, sizeof(comm::BellWords));
    if (bell.is_ok()) {
      peer->bell = std::move(bell).value();
      comm::TcpLink* control = peer->control.get();
      peer->shm = std::make_unique<comm::ShmLink>(
          std::move(segment), handshake.is_caller(),
          comm::Bell(reinterpret_cast<comm::BellWords*>(peer->bell.data())), [control] {
            control->session().send_control(FrameKind::kWake, {}, {}, {});
            control->pump();
          });
    }
  }
  watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, peer->control.get());
  if (!peer->shm) sockets_matter_ = true;
  attempts_.erase(peer->id);
  connect_failures_.erase(peer->id);
  peers_[peer->id] = std::move(peer);
  count_local_ranks();
}

// How long to look before sleeping. Giving the core up between looks costs an idle machine
// a fraction of a microsecond and saves a busy one its time slices: with other work on the cores, 2
// ranks at 4 KiB take 7 us this way and 250 us when they spin. More ranks than cores take turns: 4
// on 2 cores, 9 us against 26 us for sleeping at once; long looking only delays the others.
void Runtime::count_local_ranks() {
  int local = 1;
  for (const auto& [id, peer] : peers_) local += peer->same_host ? 1 : 0;
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  driver_.set_patience(local <= cores ? Patience{50, 400} : Patience{0, 50});
}

void Runtime::add_communicator(const std::shared_ptr<comm::LiveCommunicator>& communicator) {
  communicators_.push_back(communicator);
  const auto& members = communicator->view().members;
  for (auto it = early_.begin(); it != early_.end();) {
    if (it->frame.header.key.comm != communicator->id()) {
      ++it;
      continue;
    }
    const auto at = std::find(members.begin(), members.end(), it->from);
    const Rank from{static_cast<int>(at - members.begin())};
    if (at != members.end()) deliver(*communicator, from, it->frame);
    it = early_.erase(it);
  }
}

void Runtime::say_goodbye() {
  for (auto& [id, peer] : peers_) {
    if (peer->reported) continue;
    peer->control->session().send_control(FrameKind::kGoodbye, {}, {}, {});
    for (int i = 0; i < 16 && peer->control->pump(); ++i) {
    }
  }
}

}  // namespace holdfast::runtime
