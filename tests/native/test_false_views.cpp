// A process with a token of its own that lies about views, over real sockets: to a coordinator
// whose group goes on, and first of all to one that was started anew.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/net/socket.h"
#include "runtime/coordinator/issuer.h"
#include "runtime/coordinator/process.h"
#include "runtime/node.h"
#include "runtime/rendezvous/secret_file.h"
#include "runtime/runtime.h"
#include "sealed_pair.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SecretFile;

// Looks again and again, for at most half a minute.
bool comes_true(const std::function<bool()>& check) {
  for (int look = 0; look < 3000; ++look) {
    if (check()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

// One that a coordinator may have again after its end.
std::uint16_t free_port() {
  const int listener = listen_on("127.0.0.1", 0).value();
  const std::uint16_t port = local_port(listener).value();
  ::close(listener);
  return port;
}

// A coordinator in a process of its own, which waits until it is told to start.
class CoordinatorChild {
 public:
  explicit CoordinatorChild(const SecretFile& secret) {
    int there[2];
    int back[2];
    REQUIRE(::pipe(there) == 0);
    REQUIRE(::pipe(back) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(there[1]);
      ::close(back[0]);
      serve(secret.path(), there[0], back[1]);
    }
    ::close(there[0]);
    ::close(back[1]);
    to_ = there[1];
    from_ = back[0];
  }
  ~CoordinatorChild() {
    kill();
    ::close(to_);
    ::close(from_);
  }

  void start(int port) { ask(port); }
  // How many members its only group has; 0: it has none, or another one, too.
  int members() { return ask(0); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  int ask(int number) const {
    REQUIRE(::write(to_, &number, sizeof number) == sizeof number);
    REQUIRE(::read(from_, &number, sizeof number) == sizeof number);
    return number;
  }

  [[noreturn]] static void serve(const std::string& secret, int from, int to) {
    int number = 0;
    std::shared_ptr<CoordinatorProcess> coordinator;
    while (::read(from, &number, sizeof number) == sizeof number) {
      if (!coordinator) {
        Options options;
        options.address = "127.0.0.1";
        options.port = static_cast<std::uint16_t>(number);
        options.secret_file = secret;
        options.heartbeat = milliseconds(100);
        auto started = CoordinatorProcess::create(options, {});
        if (!started.is_ok()) std::_Exit(1);
        coordinator = std::move(started).value();
      } else {
        const auto worlds = coordinator->worlds();
        number = worlds.size() == 1 ? static_cast<int>(worlds[0].view.present().size()) : 0;
      }
      if (::write(to, &number, sizeof number) != sizeof number) std::_Exit(1);
    }
    std::_Exit(0);
  }

  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

Options with_token(const SecretFile& secret, std::uint16_t port) {
  secure::TokenClaims claims;
  claims.serial = random_serial().value();
  claims.run = "run7";
  claims.not_after = {unix_now().value + 600};
  const auto ring = secure::KeyRing::make(read_secret_files(secret.path()).value());
  Options options;
  options.address = "127.0.0.1";
  options.heartbeat = milliseconds(100);
  options.coordinator = "127.0.0.1:" + std::to_string(port) + "/run7";
  options.token = secure::token_text(ring.value().mint(std::move(claims)).value());
  return options;
}

// A process that came in by a token, and says what it likes.
class Forger {
 public:
  Forger(const SecretFile& secret, std::uint16_t port)
      : runtime_(Runtime::create(with_token(secret, port)).value()) {}
  ~Forger() { runtime_->stop(); }

  // Whether the coordinator is connected.
  bool is_there() {
    bool there = false;
    runtime_->run(
        [&] { there = runtime_->router().is_connected(runtime_->coordinator()->member); });
    return there;
  }
  bool calls() {
    runtime_->run([&] {
      runtime_->call_member(*runtime_->coordinator(), runtime_->clock()->now() + seconds(30));
    });
    return comes_true([&] { return is_there(); });
  }
  // That it is a member of a group of that name, older than any, in a late view.
  void lie() {
    ft::Message m;
    m.kind = ft::MessageKind::kGreet;
    m.world = {3};
    m.epoch = m.view.epoch = {1001};
    m.view.members = {runtime_->parts().self};
    m.view.cards = {"nowhere"};
    m.elastic = true;
    m.text = "run7/world";
    m.statement.assign(96, std::byte{7});
    runtime_->run([&] { runtime_->router().send(runtime_->coordinator()->member, m); });
  }

 private:
  std::shared_ptr<Runtime> runtime_;
};

ft::Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("a signature counts wherever its secret is, and nowhere else" *
          doctest::skip(!secure::available())) {
  const SecretFile old_secret;
  const SecretFile new_secret;
  const auto before = ViewIssuer::open(old_secret.path()).value();
  const auto meanwhile = ViewIssuer::open(new_secret.path() + "," + old_secret.path()).value();
  const auto after = ViewIssuer::open(new_secret.path()).value();
  const ft::Bytes text = bytes_of("a view");
  const ft::Bytes signature = before->sign(text);
  CHECK(before->digest(text).size() == ft::kDigestBytes);
  CHECK(before->check(text, signature));
  CHECK(ViewIssuer::open(old_secret.path()).value()->check(text, signature));
  CHECK(meanwhile->check(text, signature));
  CHECK_FALSE(after->check(text, signature));
  CHECK(after->check(text, meanwhile->sign(text)));
  CHECK_FALSE(before->check(bytes_of("another view"), signature));
  CHECK_FALSE(before->check(text, {}));
  // Who was not let in yet knows nobody whose signature counts, and signs nothing.
  const auto stranger = ViewIssuer::let_in_by(old_secret.sealer());
  CHECK_FALSE(stranger->check(text, signature));
  CHECK(stranger->sign(text).empty());
}

struct Joined {
  std::shared_ptr<Node> node;
  std::shared_ptr<comm::Communicator> group;
};

std::vector<Joined> gather(const SecretFile& secret, std::uint16_t port) {
  std::vector<Joined> members(2);
  std::vector<std::thread> threads;
  for (Joined& member : members) {
    threads.emplace_back([&] {
      auto node = Node::create(with_token(secret, port));
      if (!node.is_ok()) return;
      member.node = node.value();
      auto group = member.node->join_elastic({"world", {-1}, 0, seconds(60), {}}, 2);
      if (group.is_ok()) member.group = group.value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Joined& member : members) REQUIRE(member.group != nullptr);
  return members;
}

bool is_well(const std::vector<Joined>& members) {
  for (const Joined& member : members) {
    if (!member.group->health().is_ok()) return false;
  }
  return true;
}

TEST_CASE("who lies about views by a token disturbs no group" *
          doctest::skip(!secure::available())) {
  const SecretFile secret;
  // Forked before there are threads.
  CoordinatorChild first(secret);
  CoordinatorChild second(secret);
  const std::uint16_t port = free_port();
  first.start(port);
  const std::vector<Joined> members = gather(secret, port);
  REQUIRE(comes_true([&] { return first.members() == 2; }));
  Forger forger(secret, port);
  REQUIRE(forger.calls());
  forger.lie();
  std::this_thread::sleep_for(milliseconds(500));
  CHECK(first.members() == 2);
  CHECK(is_well(members));

  // Another life of it, which a liar calls at once.
  first.kill();
  Forger again(secret, port);
  second.start(port);
  CHECK(again.calls());
  again.lie();
  CHECK(comes_true([&] { return second.members() == 2; }));
  CHECK(is_well(members));
  for (const Joined& member : members) member.node->close(seconds(5));
}

}  // namespace
}  // namespace holdfast::runtime
