// A relay and its members, with sockets of this host: bytes arrive, what is held is bounded, and a
// process learns whether it can be called.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <array>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/forks.h"
#include "base/net/socket.h"
#include "relay_gates.h"
#include "runtime/relay/relay_client.h"
#include "runtime/relay/relay_server.h"
#include "runtime/rendezvous/doorman.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Gate;
using testing::kA;
using testing::ring_of;
using testing::token_of;

// A relay with sockets.
class ServerRig {
 public:
  explicit ServerRig(const std::shared_ptr<const Sealer>& sealer, RelayLimits limits = {},
                     const std::string& address = "127.0.0.1")
      : sealer_(sealer) {
    listener_ = listen_on(address, 0).value();
    at_ = {address, local_port(listener_).value()};
    RelayServer::RelayRules rules;
    rules.listener = listener_;
    rules.gate = gate_.gate();
    rules.limits = limits;
    server_ = RelayServer::start(std::move(rules)).value();
  }
  ~ServerRig() {
    server_.reset();
    close_unforked(listener_);
  }
  std::unique_ptr<RelayClient> reach(std::uint64_t member) {
    return RelayClient::start({{member}, 1, {"127.0.0.1"}, sealer_}, [] {}).value();
  }
  RelayServer& server() { return *server_; }
  const Endpoint& at() const { return at_; }

 private:
  Gate gate_;
  std::shared_ptr<const Sealer> sealer_;
  int listener_;
  Endpoint at_;
  std::unique_ptr<RelayServer> server_;
};

// Shows a token of the gate's ring.
class TokenSealer final : public Sealer {
 public:
  explicit TokenSealer(std::byte fill = std::byte{7}) : ring_(ring_of(fill)) {}
  Result<std::unique_ptr<TlsSeal>> call(MemberId) const override {
    return Status{Code::kUnsupported, "not here"};
  }
  Result<std::unique_ptr<TlsSeal>> answer() const override {
    return Status{Code::kUnsupported, "not here"};
  }
  Result<secure::Token> token() const override { return token_of(ring_, "run7", kA); }

 private:
  secure::KeyRing ring_;
};

template <class Condition>
bool within_ten_seconds(Condition holds) {
  for (int i = 0; i < 2000 && !holds(); ++i) std::this_thread::sleep_for(milliseconds(5));
  return holds();
}

std::vector<Crossing> crossings_of(RelayClient& reach) {
  std::vector<Crossing> all;
  within_ten_seconds([&] {
    if (all.empty()) all = reach.take();
    return !all.empty();
  });
  return all;
}

// Members 1 and 2, once 1 is registered and 2 has called it.
std::array<std::unique_ptr<RelayClient>, 2> meet(ServerRig& rig) {
  std::array clients{rig.reach(1), rig.reach(2)};
  for (const auto& client : clients) client->set_relays({rig.at()});
  clients[0]->set_needed(true);
  REQUIRE(within_ten_seconds([&] { return rig.server().counts().lines.registered >= 1; }));
  clients[1]->call({1});
  return clients;
}

TEST_CASE("two that cannot be called reach each other, and all bytes arrive in order") {
  if (!secure::available()) return;
  const auto sealer = std::make_shared<const TokenSealer>();
  ServerRig rig(sealer);
  const auto [one, two] = meet(rig);
  const auto calls = crossings_of(*two);
  const auto picked = crossings_of(*one);
  REQUIRE(calls.size() == 1);
  REQUIRE(picked.size() == 1);
  CHECK(calls[0].is_caller);
  CHECK(calls[0].peer == MemberId{1});
  CHECK_FALSE(picked[0].is_caller);
  CHECK(picked[0].peer == MemberId{2});
  std::vector<unsigned char> sent(3U << 20);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<unsigned char>(i * 31 >> 3);
  std::vector<unsigned char> got;
  std::size_t at = 0;
  std::vector<unsigned char> room(1U << 16);
  REQUIRE(within_ten_seconds([&] {
    for (int i = 0; i < 100 && got.size() < sent.size(); ++i) {
      const ssize_t n =
          ::send(calls[0].fd, sent.data() + at, sent.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) at += static_cast<std::size_t>(n);
      const ssize_t r = ::recv(picked[0].fd, room.data(), room.size(), MSG_DONTWAIT);
      if (r > 0) got.insert(got.end(), room.begin(), room.begin() + r);
    }
    return got.size() == sent.size();
  }));
  CHECK(got == sent);
  REQUIRE(within_ten_seconds([&] { return rig.server().counts().passed >= sent.size(); }));
  // The end of one of the two is the end of the other.
  close_unforked(calls[0].fd);
  pollfd look{picked[0].fd, POLLIN, 0};
  CHECK(::poll(&look, 1, 10000) == 1);
  CHECK(::recv(picked[0].fd, room.data(), room.size(), MSG_DONTWAIT) == 0);
  close_unforked(picked[0].fd);
  CHECK(within_ten_seconds([&] { return rig.server().counts().lines.pairs == 0; }));
}

TEST_CASE("a reader that reads nothing is not read for, beyond what is bounded") {
  if (!secure::available()) return;
  const auto sealer = std::make_shared<const TokenSealer>();
  ServerRig rig(sealer);
  const auto [one, two] = meet(rig);
  const auto calls = crossings_of(*two);
  const auto picked = crossings_of(*one);
  REQUIRE(calls.size() == 1);
  REQUIRE(picked.size() == 1);
  // Until nothing moves for a while.
  const std::vector<char> some(1U << 16);
  std::size_t sent = 0;
  for (int idle = 0; idle < 60;) {
    const ssize_t n = ::send(calls[0].fd, some.data(), some.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    idle = n > 0 ? 0 : idle + 1;
    if (n > 0) sent += static_cast<std::size_t>(n);
    if (n <= 0) std::this_thread::sleep_for(milliseconds(5));
    REQUIRE(sent < (64U << 20));
  }
  // Counts are written at intervals.
  CHECK(within_ten_seconds([&] { return rig.server().counts().lines.pairs == 1; }));
  for (const auto& each : {calls[0], picked[0]}) close_unforked(each.fd);
}

TEST_CASE("over IPv6 alone") {
  if (!secure::available()) return;
  const auto here = listen_on("::1", 0);
  if (!here.is_ok()) return;
  close_unforked(here.value());
  const auto sealer = std::make_shared<const TokenSealer>();
  ServerRig rig(sealer, {}, "::1");
  const auto [one, two] = meet(rig);
  const auto calls = crossings_of(*two);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].relay.address == "::1");
  close_unforked(calls[0].fd);
  for (const Crossing& each : crossings_of(*one)) close_unforked(each.fd);
}

TEST_CASE("a pair that says nothing ends") {
  if (!secure::available()) return;
  RelayLimits limits;
  limits.idle = milliseconds(500);
  const auto sealer = std::make_shared<const TokenSealer>();
  ServerRig rig(sealer, limits);
  const auto [one, two] = meet(rig);
  const auto calls = crossings_of(*two);
  REQUIRE(calls.size() == 1);
  pollfd look{calls[0].fd, POLLIN, 0};
  CHECK(::poll(&look, 1, 10000) == 1);
  close_unforked(calls[0].fd);
  for (const Crossing& each : crossings_of(*one)) close_unforked(each.fd);
}

TEST_CASE("who shows another secret's token is told, and not registered") {
  if (!secure::available()) return;
  ServerRig rig(std::make_shared<const TokenSealer>(std::byte{9}));
  const auto one = rig.reach(1);
  one->set_relays({rig.at()});
  const Status why = one->await_called(seconds(10));
  CHECK(why.message().find("refuses this process") != std::string::npos);
  CHECK(rig.server().counts().lines.registered == 0);
}

TEST_CASE("a process that can be called hears so from its relay, by its own door") {
  if (!secure::available()) return;
  const auto sealer = std::make_shared<const TokenSealer>();
  ServerRig rig(sealer);
  const int listener = listen_on("127.0.0.1", 0).value();
  const auto reach =
      RelayClient::start({{1}, local_port(listener).value(), {"127.0.0.1"}, sealer}, [] {}).value();
  Doorman::Rules rules;
  rules.sealer = sealer;
  rules.knock = [&](std::span<const std::byte> said) { return reach->hear_knock(said); };
  auto doorman = Doorman::start(listener, rules, [] {}).value();
  reach->set_relays({rig.at()});
  CHECK(reach->await_called(seconds(10)).is_ok());
  CHECK(reach->called() == CalledBy::kDirectly);
  doorman.reset();
  close_unforked(listener);
}

TEST_CASE("a process that cannot be called registers by itself") {
  if (!secure::available()) return;
  const auto sealer = std::make_shared<const TokenSealer>();
  ServerRig rig(sealer);
  // Nobody listens at its port.
  const auto reach = rig.reach(1);
  reach->set_relays({rig.at()});
  CHECK(reach->await_called(seconds(10)).is_ok());
  CHECK(reach->called() == CalledBy::kByRelay);
  CHECK(within_ten_seconds([&] { return rig.server().counts().lines.registered == 1; }));
}

TEST_CASE("a doorman hands a relay's callers over, unread") {
  if (!secure::available()) return;
  const auto sealer = std::make_shared<const TokenSealer>();
  Gate gate;
  RelayServer::RelayRules own;
  own.gate = gate.gate();
  const auto server = RelayServer::start(std::move(own)).value();
  const int listener = listen_on("127.0.0.1", 0).value();
  Doorman::Rules rules;
  rules.sealer = sealer;
  rules.relay = [&](int fd) { server->adopt(fd); };
  auto doorman = Doorman::start(listener, rules, [] {}).value();
  const auto reach = RelayClient::start({{1}, 1, {"127.0.0.1"}, sealer}, [] {}).value();
  reach->set_needed(true);
  reach->set_relays({{"127.0.0.1", local_port(listener).value()}});
  CHECK(within_ten_seconds([&] { return server->counts().lines.registered == 1; }));
  CHECK(doorman->callers().greeted == 0);
  // Who is connected by a relay is heard like others: says nonsense, and is turned away.
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  REQUIRE(::send(ends[0], "nonsense", 8, MSG_NOSIGNAL) == 8);
  doorman->admit(ends[1]);
  CHECK(within_ten_seconds([&] { return doorman->callers().turned_away == 1; }));
  close_unforked(ends[0]);
  doorman.reset();
  close_unforked(listener);
}

}  // namespace
}  // namespace holdfast::runtime
