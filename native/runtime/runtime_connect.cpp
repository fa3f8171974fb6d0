// How a runtime connects to its peers: calling, answering, and what a connection becomes.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/patience.h"
#include "comm/engine/host_area.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

// A caller has this long to greet.
constexpr Duration kGreetingTime = std::chrono::seconds(10);
// A caller that replaces a broken connection has less time: what holds it up may be over soon.
constexpr Duration kMendingTime = std::chrono::seconds(1);
// Time limit of reaching a newcomer.
constexpr Duration kConnectTime = std::chrono::seconds(30);
constexpr Duration kRetryPause = std::chrono::milliseconds(50);
// How long a process may stay connected to a coordinator that has nothing to do with it; and how
// many may. The first to come goes.
constexpr Duration kStrangersTime = std::chrono::seconds(30);
constexpr std::size_t kMostStrangers = 512;

Duration greeting_time(bool mends, const Peer* known) {
  if (!mends) return kGreetingTime;
  if (known == nullptr) return kMendingTime;
  return patience(kMendingTime, Duration(known->control->measured().round_trip_ns.value()));
}

}  // namespace

Card Runtime::own_card() const {
  Card card;
  card.member = parts_.self;
  card.settings = settings_text(parts_.options, parts_.plan);
  card.host = parts_.host;
  card.domain = parts_.options.domain;
  card.port = parts_.port;
  card.addresses = parts_.options.address.empty()
                       ? interface_addresses()
                       : std::vector<std::string>{parts_.options.address};
  card.transports = parts_.paths.names();
  card.coordinators = parts_.coordinators;
  const auto witness = parse_witness(parts_.options.witness);
  if (has_secret() && witness.is_ok()) card.witness = witness.value().key;
  if (relay_client_) card.called = relay_client_->called();
  if (parts_.http) card.http = parts_.http->reached_at(card.addresses.front());
  return card;
}

Status Runtime::connect_failure(MemberId id) const {
  const auto found = connect_failures_.find(id);
  return found == connect_failures_.end() ? Status::ok() : found->second;
}

bool Runtime::is_refused(MemberId id) const {
  const auto found = attempts_.find(id);
  return found != attempts_.end() && found->second.refusals >= found->second.card.addresses.size();
}

// The member with the larger id calls, so that two never call each other, unless one of them may
// not be able to.
void Runtime::connect(const Card& card, Instant deadline) {
  if (parts_.self > card.member || calls_all()) call_member(card, deadline);
}

void Runtime::call_member(const Card& card, Instant deadline) {
  if (card.member == parts_.self || peers_.contains(card.member)) return;
  if (attempts_.contains(card.member)) return;
  if (is_coordinator(card.member)) parts_.search.begin(parts_.clock->now());
  attempts_.emplace(card.member, Attempt{card, 0, deadline, {}, 0, false});
}

void Runtime::want(const ft::Joiner& joiner) {
  const auto card = parse_card(joiner.card);
  if (!card.is_ok() || card.value().member != joiner.member) return;
  // Who is not connected to all is not admitted, and LateJoin tells the user.
  if (card.value().coordinators != parts_.coordinators) return;
  call_member(card.value(), parts_.clock->now() + kConnectTime);
}

std::optional<Endpoint> Runtime::next_endpoint(Attempt& attempt, Instant now) {
  if (is_coordinator(attempt.card.member)) {
    auto next = parts_.search.next(now);
    attempt.not_before = parts_.search.due();
    return next;
  }
  std::vector<std::string> addresses = attempt.card.addresses;
  if (attempt.card.host == parts_.host) {
    std::rotate(addresses.begin(), addresses.end() - 1, addresses.end());
  }
  const auto vouched = std::find(addresses.begin(), addresses.end(), attempt.vouched);
  if (vouched != addresses.end()) std::iter_swap(addresses.begin(), vouched);
  const Peer* const known = find_peer(attempt.card.member);
  const bool mends = attempt.mends && !attempt.is_first;
  attempt.not_before = now + greeting_time(mends, known) + kRetryPause;
  return Endpoint{addresses[attempt.next_address++ % addresses.size()], attempt.card.port};
}

Greeting Runtime::hello_to(const Card& card) {
  if (const auto lane = hello_of_lane(card.member)) return *lane;
  // A data path beside the connection outlives it, but the other process may have forgotten this
  // one.
  const bool keeps = keeps_data(card.member);
  Greeting hello{parts_.self, card.member, parts_.process, keeps, {}};
  hello.offers = parts_.paths.offers(card, card.host == parts_.host, [&](const Status& why) {
    if (!keeps) lacks_memory(why);
  });
  offer_trunk(hello, card.host == parts_.host);
  return hello;
}

void Runtime::call(Attempt& attempt, Instant now) {
  const auto next = next_endpoint(attempt, now);
  if (!next) return;
  const Endpoint& to = *next;
  const bool mends = attempt.mends && !attempt.is_first;
  const Duration time = greeting_time(mends, find_peer(attempt.card.member));
  Greeting hello = hello_to(attempt.card);
  if (is_coordinator(attempt.card.member)) {
    hello.opening = router_.opening(attempt.card.member);
    // A question that is too long for a greeting follows it.
    if (hello.opening.size() > kMaxOpeningBytes) hello.opening.clear();
  }
  std::unique_ptr<TlsSeal> seal;
  if (parts_.sealer) {
    auto made = parts_.sealer->call(attempt.card.member);
    if (!made.is_ok()) return note_failure(attempt.card.member, to, made.status(), now);
    seal = std::move(made).value();
  }
  auto fd = start_connect(to);
  if (!fd.is_ok()) return note_failure(attempt.card.member, to, fd.status(), now);
  begin_call(std::make_unique<Handshake>(fd.value(), to, hello, now + time, std::move(seal)));
}

void Runtime::begin_call(std::unique_ptr<Handshake> call) {
  const Peer* known = call->hello().joins ? find_peer(call->hello().to) : nullptr;
  if (known != nullptr && known->trunk_key) call->prove_lane(*known->trunk_key);
  watch(call->fd(), EPOLLIN | EPOLLOUT | EPOLLET, callers_);
  handshakes_.push_back(std::move(call));
}

void Runtime::take_callers() {
  if (!doorman_) return;
  hear_testimonies();
  for (auto& caller : doorman_->take()) {
    watch(caller->fd(), EPOLLIN | EPOLLET, callers_);
    handshakes_.push_back(std::move(caller));
  }
}

void Runtime::step_handshakes(Instant now) {
  std::vector<MemberId> due;
  for (const auto& [member, attempt] : attempts_) {
    if (now >= attempt.not_before && now < attempt.deadline) due.push_back(member);
  }
  for (const MemberId member : due) call(attempts_.at(member), now);
  std::erase_if(attempts_, [&](const auto& a) { return now >= a.second.deadline; });
  for (std::size_t i = 0; i < handshakes_.size();) {
    Handshake& handshake = *handshakes_[i];
    Handshake::HandshakeState state = handshake.step(now);
    if (state == Handshake::HandshakeState::kPending && handshake.has_hello()) {
      answer(handshake);
      state = handshake.step(now);
    }
    if (state == Handshake::HandshakeState::kPending) {
      ++i;
      continue;
    }
    if (state == Handshake::HandshakeState::kReady) {
      establish(handshake);
    } else if (handshake.is_caller() && handshake.hello().joins) {
      note_lane_failure(handshake.hello().to, handshake.endpoint(), handshake.failure());
    } else if (handshake.is_caller() && !handshake.is_withdrawn()) {
      const MemberId callee = handshake.hello().to;
      note_failure(callee, handshake.endpoint(), handshake.failure(), now);
      parts_.paths.forget(callee);
    }
    if (handshake.fd() >= 0) unwatch(handshake.fd());
    handshakes_.erase(handshakes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Runtime::answer(Handshake& handshake) {
  const Greeting& hello = handshake.peer();
  // Callers know a coordinator by its address, not by its id.
  const bool meant = hello.to == parts_.self || parts_.service != nullptr;
  if (!meant || hello.from == parts_.self) {
    handshake.refuse({Code::kAuthFailed, "a caller that looks for another process"});
    return;
  }
  if (hello.joins) {
    Greeting welcome{hello.to, hello.from, parts_.process, false, {}};
    welcome.joins = has_trunk(handshake);
    return handshake.welcome(welcome);
  }
  if (!gives_way_to(hello)) {
    handshake.refuse({Code::kAuthFailed, "a caller that is being called"});
    return;
  }
  drop_calls(hello.from);
  const bool keeps = hello.keeps && keeps_data(hello.from);
  Greeting welcome{hello.to, hello.from, parts_.process, keeps, {}};
  if (!keeps) welcome.offers = parts_.paths.answer(hello.from, hello.offers);
  settle_trunk(hello, welcome);
  handshake.welcome(welcome);
}

void Runtime::establish(Handshake& handshake) {
  const Greeting& theirs = handshake.peer();
  introduce(theirs.from);
  if (theirs.joins || (handshake.is_caller() && handshake.hello().joins)) {
    return join_trunk(handshake);
  }
  if (relay_client_) keep_one_call(handshake);
  if (Peer* known = find_peer(theirs.from)) return renew(*known, handshake);
  // This process forgot the peer while the two greeted: closing the connection makes the peer call
  // again.
  if (handshake.keeps()) return;
  auto peer = std::make_unique<Peer>(theirs.from);
  auto key = handshake.export_key();
  comm::Connection connection = handshake.take_connection();
  const int fd = connection.fd;
  unwatch(fd);
  peer->control = parts_.paths.make_control(std::move(connection), handshake.terms());
  note_call(*peer, handshake, std::move(key));
  peer->set_relayed(handshake.is_relayed());
  peer->same_host = !peer->relayed && is_same_host(fd);
  peer->address = peer_address(fd);
  if (peer->same_host) do_not_pace(fd);
  peer->control->look_at_path();  // greeting each other has measured it
  peer->path = parts_.paths.make(theirs.from, theirs.offers, handshake.is_caller(), *peer->control);
  watch(peer->control->fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, peer->of_link);
  if (!peer->shares_memory()) sockets_matter_ = true;
  attempts_.erase(theirs.from);
  connect_failures_.erase(theirs.from);
  if (is_coordinator(theirs.from)) has_found_coordinator(handshake);
  router_.add_peer(theirs.from, peer->control.get(), &peer->data(), parts_.clock->now());
  watch_process(*peer, theirs.process);
  peers_[theirs.from] = std::move(peer);
  count_local_ranks();
  if (parts_.service == nullptr) return;
  router_.hear_opening(theirs.from, theirs.opening, parts_.clock->now());
  newcomers_.emplace_back(theirs.from, parts_.clock->now());
  show_strangers_out(parts_.clock->now());
}

// Each caller of a coordinator is looked at once: when its time is over, or when it is the oldest
// of too many.
void Runtime::show_strangers_out(Instant now) {
  while (!newcomers_.empty()) {
    const auto [id, since] = newcomers_.front();
    if (newcomers_.size() <= kMostStrangers && now - since < kStrangersTime) return;
    newcomers_.pop_front();
    Peer* peer = find_peer(id);
    if (peer == nullptr || parts_.service->knows(id)) continue;
    peer->control->hang_up();
    next_reap_ = {};
  }
}

// If the process cannot be watched, its closed connection tells of its end, as between hosts.
void Runtime::watch_process(Peer& peer, const ProcessId& process) {
  peer.process = WatchedProcess(process, parts_.process);
  switch (peer.process.state()) {
    case WatchedProcess::ProcessState::kUnseen: return;
    case WatchedProcess::ProcessState::kEnded: return process_has_ended(peer);
    case WatchedProcess::ProcessState::kWatched:
      return watch(peer.process.descriptor(), EPOLLIN, peer.of_process);
  }
}

// The kernel's proof that the process has ended: it sends nothing more, even if another process
// still holds its sockets. What it had sent is read first.
void Runtime::process_has_ended(Peer& peer) {
  peer.control->set_readable();
  router_.on_process_ended(peer.id);
  if (peer.process.descriptor() < 0) return;
  // The descriptor stays readable: one event is enough.
  unwatch(peer.process.descriptor());
  peer.process = {};
}

void Runtime::reap() {
  for (const MemberId gone : router_.take_forgotten()) drop(gone);
}

void Runtime::drop(MemberId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const Peer& peer = *found->second;
  if (peer.control->fd() >= 0) unwatch(peer.control->fd());
  if (peer.process.descriptor() >= 0) unwatch(peer.process.descriptor());
  if (parts_.service != nullptr) parts_.service->confine(id, {});
  peers_.erase(found);
}

// Everything works without shared memory, over sockets.
void Runtime::lacks_memory(const Status& why) {
  if (lacks_memory_.exchange(true, std::memory_order_relaxed)) return;  // relaxed: alone
  say("this process goes on over TCP where it has no shared memory: " + why.message() + "; " +
      comm::Segment::room() +
      ". Give it more (docker run --shm-size=1g; Kubernetes: an emptyDir of medium Memory at "
      "/dev/shm)");
}

std::string Runtime::memory_of(const std::string& card) const {
  const auto parsed = parse_card(card);
  return parsed.is_ok() && lays_memory_open(parsed.value()) ? parsed.value().host : std::string{};
}

std::string Runtime::domain_of(const std::string& card) const {
  const auto parsed = parse_card(card);
  return parsed.is_ok() ? parsed.value().domain : std::string{};
}

Result<group::OwnArea> Runtime::make_area() {
  auto segment = comm::Segment::create("flat", sizeof(comm::HostArea));
  if (!segment.is_ok()) {
    lacks_memory(segment.status());
    return segment.status();
  }
  return own_area(std::make_shared<comm::Segment>(std::move(segment).value()));
}

Result<group::OwnArea> Runtime::make_room() {
  auto segment = comm::AreaRoom::create();
  if (!segment.is_ok()) return make_area();
  group::OwnArea own = own_area(std::make_shared<comm::Segment>(std::move(segment).value()));
  own.peer.room = std::make_shared<comm::AreaRoom>(own.peer.segment);
  return own;
}

group::OwnArea Runtime::own_area(std::shared_ptr<comm::Segment> segment) const {
  reinterpret_cast<comm::HostArea*>(segment->data())->owner = comm::MemoryOwner::self();
  group::OwnArea own{segment->name(), {std::move(segment), own_bell(), {}}};
  own.peer.own_pool = parts_.pool;
  return own;
}

std::optional<comm::HostPeer> Runtime::open_area(MemberId member, const std::string& name) {
  Peer* peer = find_peer(member);
  if (peer == nullptr || !peer->shares_memory()) return std::nullopt;
  auto segment = comm::AreaRoom::is_name_of(name)
                     ? comm::AreaRoom::open(name)
                     : comm::Segment::open(name, sizeof(comm::HostArea));
  if (!segment.is_ok()) return std::nullopt;
  comm::StreamLink* control = peer->control.get();
  auto memory =
      comm::reach_memory(reinterpret_cast<comm::HostArea*>(segment.value().data())->owner);
  return comm::HostPeer{std::make_shared<comm::Segment>(std::move(segment).value()),
                        *peer->path->bell(), [control] { control->wake_peer(); }, std::move(memory),
                        peer->pool};
}

// How long to look before sleeping. Giving the core up between looks costs an idle machine
// a fraction of a microsecond and saves a busy one its time slices: with other work on the cores, 2
// ranks at 4 KiB take 7 us this way and 250 us when they spin. Where ranks outnumber cores they
// take turns: 4 on 2 cores take 9 us, and 26 us if they sleep at once. What they wait for may be a
// message's copy: 256 KiB, back and forth between two of four or eight ranks, take 29 us each way,
// and 55 if they sleep after 50 looks. After 400, ranks that wait for long have delayed the others:
// 8 bytes between two of eight take 12 us instead of 1.
void Runtime::count_local_ranks() {
  int local = 1;
  for (const auto& [id, peer] : peers_) local += peer->same_host ? 1 : 0;
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  driver_.set_patience(local <= cores ? Patience{50, 400} : Patience{0, 100});
}

}  // namespace holdfast::runtime
