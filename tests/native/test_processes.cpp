// What is known of other processes: which one a number is, and that it has ended.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/process.h"
#include "comm/transport/catalogue.h"
#include "runtime/rendezvous/card.h"

namespace holdfast {
namespace {

using State = WatchedProcess::ProcessState;

// A process that is there until it is killed, and what it says of itself.
class Other {
 public:
  explicit Other(const char* host = "here") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const ProcessId id = this_process(host);
      if (::write(ends[1], &id, sizeof id) == sizeof id) ::pause();
      ::_exit(1);
    }
    REQUIRE(::read(ends[0], &id_, sizeof id_) == sizeof id_);
    for (const int end : ends) ::close(end);
  }
  ~Other() { reap(); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  void kill() const { ::kill(pid_, SIGKILL); }
  void reap() {
    if (pid_ == 0) return;
    kill();
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  const ProcessId& id() const { return id_; }

 private:
  pid_t pid_ = 0;
  ProcessId id_;
};

bool is_readable(int descriptor, int milliseconds) {
  pollfd look{descriptor, POLLIN, 0};
  return ::poll(&look, 1, milliseconds) == 1;
}

TEST_CASE("a process that is killed is seen to end, before anybody reaps it") {
  Other other;
  const WatchedProcess watched(other.id(), this_process("here"));
  REQUIRE(watched.state() == State::kWatched);
  CHECK_FALSE(is_readable(watched.descriptor(), 0));
  other.kill();
  CHECK(is_readable(watched.descriptor(), 10'000));
  // A zombie, and then nothing.
  CHECK(WatchedProcess(other.id(), this_process("here")).state() == State::kEnded);
  other.reap();
  CHECK(WatchedProcess(other.id(), this_process("here")).state() == State::kEnded);
}

TEST_CASE("a number that another process has got by now is a process that has ended") {
  const Other other;
  ProcessId earlier = other.id();
  earlier.started -= 1;
  CHECK(WatchedProcess(earlier, this_process("here")).state() == State::kEnded);
}

TEST_CASE("a process that ends while it is looked at has no start time") {
  std::atomic<pid_t> number{0};
  std::atomic<bool> is_done{false};
  std::uint64_t seen = 0;
  // A throw in the thread would end the program.
  std::thread looks([&] {
    while (!is_done) seen += start_time(static_cast<std::uint64_t>(number)) != 0 ? 1 : 0;
  });
  for (int child = 0; child < 500; ++child) {
    const pid_t forked = ::fork();
    if (forked == 0) ::_exit(0);
    number = forked;
    ::waitpid(forked, nullptr, 0);
  }
  is_done = true;
  looks.join();
  CHECK(start_time(static_cast<std::uint64_t>(number)) == 0);
  CHECK(seen > 0);
}

TEST_CASE("numbers of another realm, and what is no number, prove nothing") {
  const Other other("elsewhere");
  const ProcessId self = this_process("here");
  CHECK(WatchedProcess(other.id(), self).state() == State::kUnseen);
  CHECK(WatchedProcess({}, self).state() == State::kUnseen);
  CHECK(WatchedProcess(other.id(), {}).state() == State::kUnseen);
  CHECK(WatchedProcess({}, {}).state() == State::kUnseen);
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1} << 31, ~std::uint64_t{0}}) {
    CHECK(WatchedProcess({self.realm, number, 1}, self).state() == State::kUnseen);
  }
}

TEST_CASE("a greeting says which process speaks, whatever else is in it") {
  for (const bool keeps : {false, true}) {
    runtime::Greeting greeting{{1}, {2}, this_process("here"), keeps, {}};
    if (!keeps) greeting.offers = {{"shm", "bell link"}, {"ucx", ""}};
    const auto parsed = runtime::parse_greeting(runtime::encode_greeting(greeting));
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value().process == greeting.process);
    CHECK(parsed.value().to == MemberId{2});
    CHECK(parsed.value().offers == greeting.offers);
    CHECK(parsed.value().keeps == keeps);
  }
  for (const std::size_t bytes : {std::size_t{0}, runtime::kMaxOpeningBytes}) {
    runtime::Greeting greeting{{1}, {2}, this_process("here"), false, {}};
    greeting.opening.resize(bytes, std::byte{7});
    const std::vector<std::byte> encoded = runtime::encode_greeting(greeting);
    CHECK(runtime::parse_greeting(encoded).value().opening == greeting.opening);
    greeting.opening.resize(runtime::kMaxOpeningBytes + 1);
    CHECK_FALSE(runtime::parse_greeting(runtime::encode_greeting(greeting)).is_ok());
  }
  const std::vector<std::byte> cut(41);
  CHECK(runtime::parse_greeting(cut).status().code() == Code::kProtocolError);
}

TEST_CASE("of a greeting's offers those of unknown transports are passed over, bad ones refused") {
  const auto parsed = [](std::vector<runtime::Offer> offers) {
    const runtime::Greeting greeting{{1}, {2}, this_process("here"), false, std::move(offers)};
    return runtime::parse_greeting(runtime::encode_greeting(greeting));
  };
  CHECK(parsed({{"pigeons", "fly"}, {"shm", "bell link"}}).value().offers ==
        std::vector<runtime::Offer>{{"shm", "bell link"}});
  CHECK_FALSE(parsed({{"shm", "a b"}, {"shm", "a b"}}).is_ok());
  for (const comm::TransportRow& row : comm::transports()) {
    const std::string longest(row.max_offer, 'x');
    CHECK(parsed({{std::string(row.name), longest}}).is_ok());
    CHECK_FALSE(parsed({{std::string(row.name), longest + "x"}}).is_ok());
  }
}

}  // namespace
}  // namespace holdfast
