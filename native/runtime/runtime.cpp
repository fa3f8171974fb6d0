#include "runtime/runtime.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/forks.h"
#include "health/pages.h"
#include "runtime/rendezvous/host_id.h"
#include "runtime/rendezvous/member_id.h"
#include "runtime/serve_health.h"

namespace holdfast::runtime {
namespace {

// Where data is awaited from more than kFewAwaited sockets, the kernel is asked which have some;
// also once in kLooksPerPoll looks, and before any sleep.
constexpr std::size_t kFewAwaited = 3;
constexpr std::size_t kFewPeers = 16;
constexpr std::uint32_t kLooksPerPoll = 16;

template <class T>
Status take(Result<T> from, T& into) {
  if (!from.is_ok()) return from.status();
  into = std::move(from).value();
  return Status::ok();
}

}  // namespace

Result<std::shared_ptr<Runtime>> Runtime::create(const Options& options,
                                                 ft::CoordinatorService* service,
                                                 std::shared_ptr<comm::MemoryPool> pool) {
  comm::Segment::remove_orphans();
  RuntimeParts parts;
  parts.options = options;
  parts.self = random_member();
  parts.host = options.host_id.empty() ? host_id() : options.host_id;
  parts.process = this_process(parts.host);
  parts.clock = std::make_shared<MonotonicClock>();
  parts.service = service;
  parts.pool = std::move(pool);
  TRY(take(read_plan(options), parts.plan));
  TRY(take(read_map(options), parts.map));
  if (!options.coordinator.empty()) TRY(name_coordinator(parts));
  auto bell = comm::Segment::create("bell", sizeof(comm::BellWords));
  const Status no_bell = bell.status();
  // Without shared memory: a bell that no other process can ring.
  if (!bell.is_ok()) bell = comm::Segment::create_private(sizeof(comm::BellWords));
  if (!bell.is_ok()) return bell.status();
  parts.bell = std::move(bell).value();
  TRY(choose_sealer(parts));
  TRY(take(Paths::open(options.transports, {parts.bell.name()}), parts.paths));
  TRY(take(listen_on(options.address, options.port), parts.listener));
  TRY(take(local_port(parts.listener), parts.port));
  parts.epoll = open_unforked([] { return ::epoll_create1(EPOLL_CLOEXEC); });
  parts.interrupt = open_unforked([] { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); });
  if (parts.epoll < 0 || parts.interrupt < 0) {
    return Status{Code::kSystem, "no file descriptors left (see ulimit -n)"};
  }
  TRY(serve_health(parts));
  auto runtime = std::make_shared<Runtime>(std::move(parts));
  if (runtime->parts_.paths.lacks_memory()) runtime->lacks_memory(no_bell);
  TRY(runtime->start());
  return runtime;
}

Runtime::Runtime(RuntimeParts parts)
    : parts_(std::move(parts)),
      router_(parts_.self, {parts_.options.heartbeat, silence_of(parts_.options)}, *this),
      driver_(*this, own_bell(), parts_.clock, parts_.options.time_slice) {
  watch(parts_.interrupt, EPOLLIN, callers_);
  for (const int fd : parts_.paths.descriptors()) watch(fd, EPOLLIN, driven_paths_);
  count_local_ranks();
  router_.set_service(parts_.service);
  const auto witness = parse_witness(parts_.options.witness);
  if (has_secret() && witness.is_ok() && parts_.service == nullptr) {
    note_ = std::make_unique<WitnessNote>(witness.value(), parts_.self);
  }
  sockets_matter_ = parts_.service != nullptr;
}

Runtime::~Runtime() {
  stop();
  for (const DirectTry& each : tries_) close_unforked(each.fd);
  for (const int fd : {parts_.listener, parts_.epoll, parts_.interrupt}) close_unforked(fd);
}

Status Runtime::start() {
  Doorman::Rules rules;
  rules.sealer = parts_.sealer;
  rules.audit = parts_.audit;
  TRY(start_reach(rules));
  TRY(take(Doorman::start(parts_.listener, rules, [this] { interrupt(); }), doorman_));
  // After that: it looks for the doorman when it is interrupted, and may be at once.
  driver_.start_thread();
  return Status::ok();
}

void Runtime::stop() {
  if (doorman_) doorman_->stop();
  if (parts_.relay) parts_.relay->stop();
  if (relay_client_) relay_client_->stop();
  driver_.stop_thread();
  if (parts_.http) parts_.http->stop();
  // A thread that never comes back from a wait may hold this runtime until the process is gone.
  parts_.bell.unlink();
  parts_.paths.stop();
}

comm::Bell Runtime::own_bell() const {
  return comm::Bell(reinterpret_cast<comm::BellWords*>(parts_.bell.data()));
}

void Runtime::watch(int fd, std::uint32_t events, Watched& watched) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watched;
  ::epoll_ctl(parts_.epoll, EPOLL_CTL_ADD, fd, &event);
}

// To be called before `fd` is closed: where a forked child has it as well, closing alone does not
// remove it from the epoll set.
void Runtime::unwatch(int fd) { ::epoll_ctl(parts_.epoll, EPOLL_CTL_DEL, fd, nullptr); }

void Runtime::interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(parts_.interrupt, &one, sizeof one);
}

void Runtime::poll_sockets(Duration timeout) {
  if (timeout > Duration::zero() && !parts_.paths.arm()) {
    // A driven path has work for the next turn; the core is lent to the ranks that this one waits
    // for.
    sched_yield();
    timeout = Duration::zero();
  }
  constexpr int kEvents = 64;
  std::array<epoll_event, kEvents> events;
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(
      timeout + std::chrono::microseconds(999));
  const int count =
      ::epoll_wait(parts_.epoll, events.data(), kEvents, static_cast<int>(wait.count()));
  bool callers = false;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const auto& watched = *static_cast<const Watched*>(event.data.ptr);
    callers = callers || watched.what == Watched::What::kCaller;
    take_event(watched, event.events);
  }
  if (!callers) return;
  std::uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = ::read(parts_.interrupt, &ignored, sizeof ignored);
  take_callers();
  next_reach_ = {};
}

void Runtime::take_event(const Watched& watched, std::uint32_t events) {
  switch (watched.what) {
    case Watched::What::kCaller:
    case Watched::What::kPaths: return;
    case Watched::What::kProcess: return process_has_ended(*watched.peer);
    case Watched::What::kLink: break;
  }
  comm::StreamLink& link = *watched.peer->control;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) link.set_readable();
  if ((events & EPOLLOUT) != 0) link.set_writable();
  if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) hurry_to_coordinator(watched.peer->id);
}

// Reading a few sockets costs less than asking the kernel which of all sockets have data.
void Runtime::look_at_sockets() {
  if (++looks_ % kLooksPerPoll != 0 && handshakes_.empty() && mark_awaited()) return;
  poll_sockets(Duration::zero());
}

// Marks the links from which data is awaited to be read in the next turn. False: those links are
// many, or none, or a link waits until it may write.
bool Runtime::mark_awaited() {
  if (peers_.size() > kFewPeers) return false;
  std::size_t awaited = 0;
  for (const auto& [id, peer] : peers_) {
    if (peer->control->wants_to_write()) return false;
    awaited += peer->control->awaits() ? 1 : 0;
  }
  // Driven paths need no mark: each turn looks at them.
  if ((awaited == 0 && !parts_.paths.is_driven()) || awaited > kFewAwaited) return false;
  for (const auto& [id, peer] : peers_) {
    if (peer->control->awaits()) peer->control->set_readable();
  }
  return true;
}

bool Runtime::busy() const {
  const bool calls = std::any_of(attempts_.begin(), attempts_.end(),
                                 [](const auto& attempt) { return !attempt.second.mends; });
  return !handshakes_.empty() || calls || router_.busy() || parts_.paths.busy();
}

bool Runtime::waits_at(int core) const {
  return std::any_of(peers_.begin(), peers_.end(), [core](const auto& known) {
    const Peer& peer = *known.second;
    return peer.shares_memory() && peer.path->bell()->waits_at(core);
  });
}

bool Runtime::latency_bound() const { return !router_.moves_bulk(); }

Instant Runtime::next_deadline() const {
  Instant next = router_.next_deadline();
  if (has_trunks_) next = std::min(next, next_tend_);
  if (handshakes_.empty() && attempts_.empty()) return next;
  return std::min(next, parts_.clock->now() + std::chrono::milliseconds(10));
}

comm::MemoryPoll Runtime::poll_memory() {
  const comm::MemoryPoll poll = router_.poll_memory();
  return {poll.moved, poll.enough && handshakes_.empty() && attempts_.empty()};
}

bool Runtime::turn(Instant now) {
  parts_.health->turned(now);
  if (!handshakes_.empty() || !attempts_.empty()) step_handshakes(now);
  if (relay_client_ && now >= next_reach_) step_reach(now);
  const bool moved = parts_.paths.progress();
  if (moved) look_behind_broken_links();
  if (parts_.desk && parts_.desk->has_orders()) serve_orders(now);
  const bool turned = router_.turn(now);
  // A view is shown even where the next one follows within a heartbeat.
  if (router_.take_begun() && parts_.status) write_status(now);
  if (has_trunks_) tend_trunks(now);
  if (now >= next_reap_) {
    next_reap_ = now + parts_.options.heartbeat;
    reap();
    end_mending();
    keep_coordinator(now);
    show_strangers_out(now);
    show_out(now);
    look_at_paths();
    leave_note();
    if (parts_.status) write_status(now);
  }
  return turned || moved;
}

// A process that leaves or dies ends its path and its connection at about the same time. The
// connection is read first, for it tells why.
void Runtime::look_behind_broken_links() {
  for (const auto& [id, peer] : peers_) {
    if (peer->path && !peer->path->link().status().is_ok()) peer->control->set_readable();
  }
}

// The kernel measures the paths all the time; the values are read as often as anything that depends
// on them changes.
void Runtime::look_at_paths() {
  for (const auto& [id, peer] : peers_) {
    peer->control->look_at_path();
    peer->control->show_relayed(peer->relayed);
  }
}

Peer* Runtime::find_peer(MemberId id) {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.get();
}

// The peer's driver may sleep on its bell, where only shared memory wakes it.
void Runtime::nudge(MemberId id) {
  const Peer* peer = find_peer(id);
  if (peer == nullptr || !peer->shares_memory()) return;
  peer->path->bell()->ring();
}

std::string Runtime::host_of(const std::string& card) const { return host_in_card(card); }

void Runtime::say(const std::string& text) { std::fprintf(stderr, "holdfast: %s\n", text.c_str()); }

ft::MembershipSettings Runtime::membership_settings() const {
  ft::MembershipSettings settings;
  settings.heartbeat = parts_.options.heartbeat;
  settings.silence = silence_of(parts_.options);
  if (parts_.coordinator) settings.coordinator = parts_.coordinator->member;
  settings.notary = parts_.issuer.get();
  settings.mesh = mesh_of(parts_.options);
  if (has_secret()) settings.host_of = host_in_card;
  return settings;
}

Result<std::shared_ptr<group::Group>> Runtime::make_group(
    group::GroupConfig config, CommId id,
    const std::function<std::shared_ptr<group::World>()>& make_world) {
  const std::shared_ptr<group::World> world =
      id == CommId{} ? make_world() : router_.find_world(id);
  if (!world) {
    return Status{Code::kNotMember,
                  "group " + config.name + ": the world that it is part of has ended here"};
  }
  for (const MemberId member : config.members) {
    const auto rank = world->rank_of(member);
    if (!rank) {
      return Status{Code::kPeerLost, "group " + config.name + ": a member was lost while it began"};
    }
    config.world_ranks.push_back(*rank);
  }
  config.whole = config.world_ranks.size() == world->view().members.size();
  return enter_group(std::move(config), world);
}

std::shared_ptr<group::Group> Runtime::enter_group(group::GroupConfig config,
                                                   const std::shared_ptr<group::World>& world) {
  // Not in one piece with its count of owners: lists of groups that have gone would keep the
  // memory.
  auto group = std::shared_ptr<group::Group>(
      new group::Group(std::move(config), world, shared_from_this(), parts_.clock));
  world->add(group, parts_.clock->now());
  router_.deliver_early(parts_.clock->now());
  leave_note();
  return group;
}

std::shared_ptr<group::Group> Runtime::known_group(const JoinRequest& request) {
  std::shared_ptr<group::Group> group;
  router_.each_world([&](const auto& world) {
    if (group || world->membership().name() == world_name(request.group)) return;
    auto config = world->admitted(base_config(request));
    if (config && config->rank == request.rank) group = enter_group(std::move(*config), world);
  });
  return group;
}

group::GroupConfig Runtime::base_config(const JoinRequest& request) const {
  group::GroupConfig config;
  config.name = request.group;
  config.timeout =
      request.op_timeout > Duration::zero() ? request.op_timeout : parts_.options.timeout;
  config.algorithm = parts_.options.algorithm;
  config.shm_link = parts_.plan.link(true);
  config.tcp_link = parts_.plan.link(false);
  config.map.map = parts_.map;
  config.background = background_;
  config.on_peer_loss = parts_.options.on_peer_loss;
  config.on_hole = parts_.options.on_hole;
  config.protect = parts_.options.fault_tolerance;
  config.next_sequence = request.first_op;
  return config;
}

void Runtime::run(const std::function<void()>& task) {
  // Owners: this call and the task, which may outlive it when the deadline of a broken driver
  // passes.
  auto done = std::make_shared<std::atomic<bool>>(false);
  submit(
      [&task, done] {
        task();
        done->store(true, std::memory_order_release);
      },
      false);
  drive_until([done] { return done->load(std::memory_order_acquire); }, Instant{Duration::max()});
}

}  // namespace holdfast::runtime
