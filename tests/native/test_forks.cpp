// What a forked child has of its parent.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST_CASE("what a library's epoll set holds, and the sets in it hold, is closed in a child") {
  const auto add = [](int set, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    REQUIRE(::epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
  };
  const int outer = ::epoll_create1(EPOLL_CLOEXEC);
  const int inner = ::epoll_create1(EPOLL_CLOEXEC);
  {
    NoFork no_fork;
    no_fork.close_what_it_holds(outer);
  }
  std::vector<int> held;
  // So many that its description takes several reads.
  for (int i = 0; i < 100; ++i) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    add(i % 2 == 0 ? outer : inner, ends[0]);
    held.insert(held.end(), ends, ends + 2);
  }
  add(outer, inner);
  CHECK(in_child([&] {
          if (is_open(outer) || is_open(inner)) return 1;
          for (std::size_t i = 0; i < held.size(); i += 2) {
            if (is_open(held[i]) || !is_open(held[i + 1])) return 2;
          }
          return 0;
        }) == 0);
  {
    NoFork no_fork;
    no_fork.forget(outer);
  }
  CHECK(in_child([&] { return is_open(outer) && is_open(held[0]) ? 0 : 1; }) == 0);
  for (const int fd : held) ::close(fd);
  for (const int fd : {outer, inner}) ::close(fd);
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
