#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "health/stacks.h"

using namespace holdfast;
using holdfast::health::Stacks;

namespace {

int written_to = -1;
int asked = 0;

void write_stack(int /*signal*/) {
  ++asked;
  const std::string text = "stack " + std::to_string(asked) + "\n";
  REQUIRE(::write(written_to, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

}  // namespace

TEST_CASE("stacks are what the handler of the signal has just written") {
  const int signal = SIGRTMIN + 7;
  Stacks stacks;
  CHECK(stacks.take().status().code() == Code::kUnsupported);
  char name[] = "/tmp/holdfast-test-stacks-XXXXXX";
  const int made = ::mkstemp(name);
  REQUIRE(made >= 0);
  ::close(made);
  written_to = ::open(name, O_RDWR | O_APPEND | O_CLOEXEC);
  REQUIRE(written_to >= 0);
  stacks.set(written_to, signal);
  // Nobody handles it: to send it would end the process.
  CHECK(stacks.take().status().code() == Code::kUnsupported);
  struct sigaction action {};
  action.sa_handler = write_stack;
  REQUIRE(::sigaction(signal, &action, nullptr) == 0);
  CHECK(stacks.take().value() == "stack 1\n");
  CHECK(stacks.take().value() == "stack 2\n");
  // Threads that block all signals, as that of the pages does.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  CHECK(stacks.take().value() == "stack 3\n");
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, &before, &now);
  CHECK(::sigismember(&now, signal) == 1);
  action.sa_handler = SIG_DFL;
  REQUIRE(::sigaction(signal, &action, nullptr) == 0);
  CHECK(stacks.take().status().code() == Code::kUnsupported);
  ::close(written_to);
  ::unlink(name);
}
