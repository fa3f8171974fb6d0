// What a forked child has of its parent.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/forks.h"
#include "comm/transport/pool.h"
#include "device/emulated_share.h"

namespace holdfast {
namespace {

// What `look` returns in a forked child.
int in_child(const std::function<int()>& look) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(look());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

TEST_CASE("a child has none of the descriptors that are not to be in it, and all others") {
  const int own = open_unforked([] { return ::eventfd(0, EFD_CLOEXEC); });
  const int users = ::eventfd(0, EFD_CLOEXEC);
  REQUIRE(own >= 0);
  CHECK(in_child([&] { return is_open(own) ? 1 : 0; }) == 0);
  CHECK(in_child([&] { return is_open(users) ? 0 : 1; }) == 0);
  CHECK(is_open(own));
  // A number that somebody else has got since is his.
  close_unforked(own);
  const int next = ::eventfd(0, EFD_CLOEXEC);
  CHECK(next == own);
  CHECK(in_child([&] { return is_open(next) ? 0 : 1; }) == 0);
  for (const int fd : {users, next}) ::close(fd);
}

TEST_CASE("a child may open and fork in its turn") {
  CHECK(in_child([] {
          const int own = open_unforked([] { return ::eventfd(0, EFD_CLOEXEC); });
          const pid_t grandchild = ::fork();
          if (grandchild == 0) ::_exit(is_open(own) ? 1 : 0);
          int status = 0;
          ::waitpid(grandchild, &status, 0);
          return status == 0 && is_open(own) ? 0 : 1;
        }) == 0);
}

TEST_CASE("what a library's epoll set holds, and what hangs on it, is closed in a child") {
  const auto add = [](int set, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    REQUIRE(::epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
  };
  const auto make_event = [] { return ::eventfd(0, EFD_CLOEXEC); };
  const auto make_set = [] { return ::epoll_create1(EPOLL_CLOEXEC); };
  const int outer = make_set();
  const int inner = make_set();
  const int of_its_thread = make_set();
  const int users = make_set();
  {
    NoFork no_fork;
    no_fork.close_what_it_holds(outer);
  }
  add(outer, inner);
  add(of_its_thread, inner);
  std::vector<int> theirs{outer, inner, of_its_thread};
  // So many that the description of a set takes several reads.
  for (int i = 0; i < 100; ++i) {
    theirs.push_back(make_event());
    add(i % 2 == 0 ? outer : inner, theirs.back());
  }
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  add(of_its_thread, ends[0]);
  theirs.insert(theirs.end(), ends, ends + 2);
  REQUIRE(::pipe(ends) == 0);
  const std::vector<int> others{users, make_event(), ends[0], ends[1]};
  add(users, others[1]);
  add(users, ends[0]);
  const auto all = [](const std::vector<int>& fds, bool open) {
    return std::all_of(fds.begin(), fds.end(), [&](int fd) { return is_open(fd) == open; });
  };
  CHECK(in_child([&] { return all(theirs, false) && all(others, true) ? 0 : 1; }) == 0);
  {
    NoFork no_fork;
    no_fork.forget(outer);
  }
  CHECK(in_child([&] { return all(theirs, true) ? 0 : 1; }) == 0);
  for (const auto& fds : {theirs, others}) {
    for (const int fd : fds) ::close(fd);
  }
}

bool is_mapped(void* memory) {
  unsigned char there = 0;
  return ::mincore(memory, 1, &there) == 0;
}

TEST_CASE("shared memory is not in a child, but for a tensor's, which it may read and not free") {
  auto segment = std::move(comm::Segment::create("testfork", 4096)).value();
  comm::MemoryPool pool;
  std::byte* tensor = pool.allocate(4096);
  tensor[0] = std::byte{7};
  CHECK(in_child([&] {
          if (is_mapped(segment.data())) return 1;
          if (tensor[0] != std::byte{7}) return 2;
          pool.release(tensor);
          return pool.allocate(8) == nullptr ? 0 : 3;
        }) == 0);
  CHECK(is_mapped(segment.data()));
  pool.release(tensor);
  CHECK(pool.allocate(4096) == tensor);
}

TEST_CASE("a child does not free its parent's memory on an emulated device") {
  auto share = device::EmulatedShare::make(1, 64);
  REQUIRE(share != nullptr);
  CHECK(in_child([&] {
          if (is_mapped(share->data())) return 1;
          share->mark_freed();
          share.reset();
          return 0;
        }) == 0);
  CHECK_FALSE(share->freed());
}

}  // namespace
}  // namespace holdfast
