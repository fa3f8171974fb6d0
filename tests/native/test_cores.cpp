// A thread leaves a core, and may run afterwards where it might before; processes say where they
// wait.
#include "base/cores.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <initializer_list>

#include "comm/transport/bell.h"

namespace holdfast::testing {
namespace {

cpu_set_t where() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  return set;
}

}  // namespace

TEST_CASE("a thread that leaves a core may run where it might before") {
  const cpu_set_t before = where();
  for (const int core : {current_core(), -1, CPU_SETSIZE, CPU_SETSIZE - 1}) {
    leave_core(core);
    const cpu_set_t after = where();
    CHECK(CPU_EQUAL(&before, &after));
  }
}

TEST_CASE("a thread that may run on one core alone stays there") {
  const cpu_set_t before = where();
  cpu_set_t one;
  CPU_ZERO(&one);
  const int core = current_core();
  REQUIRE(core >= 0);
  CPU_SET(static_cast<unsigned>(core), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  leave_core(core);
  CHECK(current_core() == core);
  const cpu_set_t after = where();
  CHECK(CPU_EQUAL(&one, &after));
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("a process says on which core it waits, until it waits no longer") {
  comm::BellWords words{};
  comm::Bell own(&words);
  const comm::Bell peers(&words);
  CHECK_FALSE(peers.waits_at(0));
  own.wait_at(0);
  CHECK(peers.waits_at(0));
  CHECK_FALSE(peers.waits_at(1));
  own.wait_at(1);
  CHECK_FALSE(peers.waits_at(0));
  own.wait_at(-1);
  CHECK_FALSE(peers.waits_at(1));
  CHECK_FALSE(peers.waits_at(0));
}

}  // namespace holdfast::testing
