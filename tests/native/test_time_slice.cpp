// Time slices of waiting threads, as the kernel tells them. Where it knows none (Linux
// before 6.12), the tests say so and hold nothing against it.
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>

#include "runtime/time_slice.h"
#include "worlds.h"

namespace holdfast::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::all_reduce;
using testing::expect_no_errors;
using testing::Member;
using testing::run_world;

// Of the calling thread; zero where the kernel knows none.
Duration own_slice() {
  constexpr std::size_t kRuntimeAt = 24;
  std::array<std::byte, 48> attributes{};
  if (::syscall(SYS_sched_getattr, 0, attributes.data(), attributes.size(), 0) != 0) return {};
  std::uint64_t slice = 0;
  std::memcpy(&slice, &attributes[kRuntimeAt], sizeof slice);
  return Duration(static_cast<std::int64_t>(slice));
}

bool knows_slices() {
  const bool known = own_slice() > Duration::zero();
  if (!known) MESSAGE("waits for Linux 6.12 or newer: this kernel does not tell time slices");
  return known;
}

Duration slice_of_a_thread(const std::function<void()>& work) {
  Duration slice{};
  std::thread([&] {
    work();
    slice = own_slice();
  }).join();
  return slice;
}

TEST_CASE("a thread gets the slice that it asks for") {
  if (!knows_slices()) return;
  CHECK(slice_of_a_thread([] { ask_for_time_slice(microseconds(300)); }) == microseconds(300));
}

TEST_CASE("a thread that has shorter slices keeps them") {
  if (!knows_slices()) return;
  const Duration slice = slice_of_a_thread([] {
    ask_for_time_slice(kShortestTimeSlice);
    ask_for_time_slice(milliseconds(50));
  });
  CHECK(slice == kShortestTimeSlice);
}

TEST_CASE("zero leaves a thread alone") {
  if (!knows_slices()) return;
  CHECK(slice_of_a_thread([] { ask_for_time_slice({}); }) == slice_of_a_thread([] {}));
}

TEST_CASE("a thread of another scheduling class stays in it") {
  if (!knows_slices()) return;
  int policy = -1;
  std::thread([&] {
    const sched_param none{};
    if (::sched_setscheduler(0, SCHED_BATCH, &none) == 0) ask_for_time_slice(kShortestTimeSlice);
    policy = ::sched_getscheduler(0);
  }).join();
  CHECK(policy == SCHED_BATCH);
}

// A rank's own thread, which drives while it waits.
std::string slice_after_waiting(int, Member& member) {
  std::vector<float> v(100'000, 1.0F);
  auto work = member.group->start(all_reduce(v));
  if (!work.is_ok()) return work.status().message();
  if (Status s = work.value()->wait(seconds(60)); !s.is_ok()) return s.message();
  const Duration slice = own_slice();
  if (slice == kShortestTimeSlice) return "";
  return "a thread that waits has slices of " + std::to_string(slice.count()) + " ns";
}

TEST_CASE("whoever waits for other ranks has short slices") {
  if (knows_slices()) expect_no_errors(run_world(2, "shm", slice_after_waiting));
}

}  // namespace
}  // namespace holdfast::runtime
