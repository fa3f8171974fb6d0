// The doorman and its waiting room: who may wait, who gives way, and that those who say nothing, or
// nonsense, keep nobody from being heard. Real sockets of this host.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/forks.h"
#include "base/net/socket.h"
#include "runtime/rendezvous/doorman.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("of an address that has all its places, the oldest gives way") {
  WaitingRoom room({10, 2});
  CHECK_FALSE(room.enter("a").gives_way);
  const auto b = room.enter("b");
  const auto second = room.enter("a");
  const auto third = room.enter("a");
  CHECK(third.gives_way == 1);
  CHECK(room.enter("a").gives_way == second.ticket);
  CHECK(room.size() == 3);
  room.leave(b.ticket);
  room.leave(b.ticket);
  CHECK(room.size() == 2);
}

TEST_CASE("of a full room, the oldest of all gives way") {
  WaitingRoom room({3, 2});
  for (const char* address : {"a", "b", "c"}) CHECK_FALSE(room.enter(address).gives_way);
  CHECK(room.enter("d").gives_way == 1);
  CHECK(room.enter("b").gives_way == 2);
  CHECK(room.size() == 3);
}

// A listener with a doorman, and its callers.
class Door {
 public:
  explicit Door(const Doorman::Rules& rules) : listener_(listen_on("127.0.0.1", 0).value()) {
    port_ = local_port(listener_).value();
    doorman_ = Doorman::start(listener_, rules, [this] { ++rings_; }).value();
  }
  ~Door() {
    doorman_.reset();
    for (const int fd : callers_) close_unforked(fd);
    close_unforked(listener_);
  }
  int call() {
    const int fd = start_connect({"127.0.0.1", port_}).value();
    pollfd look{fd, POLLOUT, 0};
    REQUIRE(::poll(&look, 1, 5000) == 1);
    callers_.push_back(fd);
    return fd;
  }
  std::unique_ptr<Handshake> greet(std::uint64_t from) {
    const int fd = start_connect({"127.0.0.1", port_}).value();
    const Greeting hello{{from}, {2}, {}, false, {}};
    const Instant soon = MonotonicClock().now() + seconds(10);
    auto call = std::make_unique<Handshake>(fd, Endpoint{"127.0.0.1", port_}, hello, soon);
    while (call->wants_to_write()) {
      REQUIRE(call->step(MonotonicClock().now()) != Handshake::HandshakeState::kFailed);
      std::this_thread::sleep_for(milliseconds(1));
    }
    return call;
  }
  // What was taken within five seconds, at least one.
  std::vector<std::unique_ptr<Handshake>> heard() {
    for (int i = 0; i < 1000; ++i) {
      auto all = doorman_->take();
      if (!all.empty()) return all;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return {};
  }
  template <class Condition>
  bool within_five_seconds(Condition holds) {
    for (int i = 0; i < 1000 && !holds(doorman_->callers()); ++i) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return holds(doorman_->callers());
  }
  static bool is_hung_up(int fd) {
    pollfd look{fd, POLLIN, 0};
    if (::poll(&look, 1, 5000) != 1) return false;
    char byte = 0;
    return ::recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
  }
  Doorman& doorman() { return *doorman_; }
  int rings() const { return rings_; }

 private:
  int listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> rings_{0};
  std::vector<int> callers_;
  std::unique_ptr<Doorman> doorman_;
};

TEST_CASE("who greets is heard, whoever else waits") {
  Door door({{64, 32}, seconds(30)});
  for (int i = 0; i < 100; ++i) door.call();
  const auto call = door.greet(7);
  const auto heard = door.heard();
  REQUIRE(heard.size() == 1);
  CHECK(heard[0]->has_hello());
  CHECK(heard[0]->peer().from == MemberId{7});
  CHECK(door.rings() == 1);
  // Of 100 that say nothing, all of one address, 32 wait: the last to come may have been heard
  // before the last to call.
  CHECK(door.within_five_seconds([](const auto& callers) { return callers.gave_way >= 68; }));
  CHECK(door.doorman().callers().greeted == 1);
}

TEST_CASE("nonsense is turned away at once, and silence in time") {
  Door door({{}, milliseconds(300)});
  const int silent = door.call();
  const int garbage = door.call();
  const std::string text =
      "GET / HTTP/1.1\r\nHost: here\r\n\r\nand some more of it, to fill a header";
  REQUIRE(::send(garbage, text.data(), text.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(text.size()));
  const auto begun = std::chrono::steady_clock::now();
  CHECK(Door::is_hung_up(garbage));
  CHECK(std::chrono::steady_clock::now() - begun < milliseconds(250));
  CHECK(Door::is_hung_up(silent));
  CHECK(door.within_five_seconds([](const auto& callers) { return callers.turned_away == 2; }));
  CHECK(door.doorman().take().empty());
}

TEST_CASE("who greets is heard in a flood of nonsense") {
  Door door({{}, seconds(30)});
  const std::string text(64, 'x');
  for (int i = 0; i < 200; ++i) {
    const int garbage = door.call();
    REQUIRE(::send(garbage, text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  const auto call = door.greet(7);
  const auto heard = door.heard();
  REQUIRE(heard.size() == 1);
  CHECK(heard[0]->peer().from == MemberId{7});
  CHECK(door.within_five_seconds([](const auto& callers) { return callers.turned_away == 200; }));
}

TEST_CASE("a greeting may come in pieces, as long as it comes in time") {
  Door door({{}, seconds(20)});
  const int fd = door.call();
  const auto whole = door.greet(8);
  REQUIRE(door.heard().size() == 1);
  // What a caller sends is the same for all: taken from a connection of this process to itself.
  const int listener = listen_on("127.0.0.1", 0).value();
  const Endpoint at{"127.0.0.1", local_port(listener).value()};
  Handshake call(start_connect(at).value(), at, {{9}, {2}, {}, false, {}},
                 MonotonicClock().now() + seconds(10));
  std::string bytes;
  int other = -1;
  for (int i = 0; i < 1000 && bytes.empty(); ++i) {
    call.step(MonotonicClock().now());
    if (other < 0) other = accept_one(listener);
    char chunk[4096];
    const ssize_t count = other < 0 ? 0 : ::recv(other, chunk, sizeof chunk, MSG_DONTWAIT);
    if (count > 0) bytes.assign(chunk, static_cast<std::size_t>(count));
    std::this_thread::sleep_for(milliseconds(1));
  }
  REQUIRE_FALSE(bytes.empty());
  for (const char byte : bytes) {
    REQUIRE(::send(fd, &byte, 1, MSG_NOSIGNAL) == 1);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  const auto heard = door.heard();
  REQUIRE(heard.size() == 1);
  CHECK(heard[0]->peer().from == MemberId{9});
  close_unforked(other);
  close_unforked(listener);
}

TEST_CASE("callers are hung up on when the doorman goes") {
  Door door({{}, seconds(30)});
  const int fd = door.call();
  std::this_thread::sleep_for(milliseconds(50));
  door.doorman().stop();
  CHECK(Door::is_hung_up(fd));
}

}  // namespace
}  // namespace holdfast::runtime
