// Programs that differ between ranks: every rank learns what each of them called.
#include <doctest/doctest.h>

#include "worlds.h"

namespace holdfast::testing {
namespace {

using Body = std::function<OpRequest(int, std::vector<float>&)>;

OpRequest broadcast(std::vector<float>& v, int root) {
  OpRequest request = all_reduce(v);
  request.collective = Collective::kBroadcast;
  request.root = {root};
  return request;
}

// Every rank makes its call and must be told, well before the time limit, all of `parts`.
void expect_report(int size, const std::string& transport, const Body& body,
                   const std::vector<std::string>& parts) {
  expect_no_errors(run_world(size, transport, [&](int rank, Member& member) -> std::string {
    std::vector<float> v(2000, 1.0F);
    // Whoever waits at once finds out no less than others.
    Result<comm::Ran> ran = comm::Ran{};
    if (rank % 2 == 0) {
      ran = member.group->run(body(rank, v));
    } else if (auto work = member.group->start(body(rank, v)); work.is_ok()) {
      ran.value().work = work.value();
    }
    if (!ran.is_ok()) return ran.status().message();
    Status status = ran.value().work ? ran.value().work->wait(seconds(20)) : Status::ok();
    if (status.is_ok()) {
      // This rank's part ended before anybody knew better; the next call must tell.
      OpRequest barrier;
      barrier.collective = Collective::kBarrier;
      auto next = member.group->start(barrier);
      status = next.is_ok() ? next.value()->wait(seconds(20)) : next.status();
    }
    if (status.code() != Code::kProtocolError) return "unexpected: " + status.message();
    for (const std::string& part : parts) {
      if (status.message().find(part) == std::string::npos) return status.message();
    }
    return "";
  }));
}

TEST_CASE("another order of calls is reported on every rank") {
  for (const std::string transport : {"shm", "tcp"}) {
    expect_report(
        3, transport,
        [](int rank, std::vector<float>& v) { return rank == 1 ? broadcast(v, 1) : all_reduce(v); },
        {"do not match", "ranks 0, 2 called all_reduce #0 (f32, 2000 elements, sum)",
         "rank 1 called broadcast #0 (f32, 2000 elements, root 1)"});
  }
}

TEST_CASE("a call that goes another way through the runtime is found, too") {
  for (const std::string transport : {"shm", "tcp"}) {
    expect_report(3, transport,
                  [](int rank, std::vector<float>& v) {
                    if (rank == 2) v.resize(300'000);
                    return all_reduce(v);
                  },
                  {"do not match", "ranks 0, 1 called all_reduce #0 (f32, 2000 elements, sum)",
                   "rank 2 called all_reduce #0 (f32, 300000 elements, sum)"});
  }
}

TEST_CASE("equal blocks said by some ranks only are reported on every rank") {
  for (const std::string transport : {"shm", "tcp"}) {
    expect_report(2, transport,
                  [](int rank, std::vector<float>& v) {
                    static thread_local std::vector<float> to;
                    to.resize(v.size());
                    OpRequest request;
                    request.collective = Collective::kAllToAll;
                    request.equal_blocks = rank == 0;
                    for (const std::size_t at : {0UL, v.size() / 2}) {
                      const std::size_t count = v.size() / 2;
                      request.input.push_back({reinterpret_cast<std::byte*>(&v[at]), count});
                      request.output.push_back({reinterpret_cast<std::byte*>(&to[at]), count});
                    }
                    return request;
                  },
                  {"do not match", "rank 0 called all_to_all #0 (f32, 2000 elements, in equal",
                   "rank 1 called all_to_all #0 (f32, 2000 elements)"});
  }
}

TEST_CASE("different roots are reported on every rank") {
  for (const std::string transport : {"shm", "tcp"}) {
    expect_report(3, transport,
                  [](int rank, std::vector<float>& v) { return broadcast(v, rank == 0 ? 0 : 2); },
                  {"root 0)", "root 2)"});
  }
}

TEST_CASE("a time limit tells who has not called") {
  expect_no_errors(run_world(3, "shm", [](int rank, Member& member) -> std::string {
    std::vector<float> v(2000, 1.0F);
    Status status = Status::ok();
    if (rank == 2) {
      while (status.is_ok()) status = member.group->health();  // busy with something else
    } else {
      OpRequest request = all_reduce(v);
      request.timeout = std::chrono::milliseconds(200);
      auto work = member.group->start(request);
      status = work.value()->wait(seconds(20));
    }
    if (status.code() != Code::kTimeout) return "unexpected: " + status.message();
    const std::string part =
        "ranks 0, 1 called all_reduce #0 (f32, 2000 elements, sum); rank 2 has not called #0";
    return status.message().find(part) == std::string::npos ? status.message() : "";
  }));
}

OpRequest receive(std::vector<float>& v, Rank from, std::uint32_t tag) {
  OpRequest request;
  request.collective = Collective::kRecv;
  request.output = {block(v)};
  request.peer = from;
  request.tag = tag;
  return request;
}

TEST_CASE("a receive of another dtype fails on both ends") {
  expect_no_errors(run_world(2, "tcp", [](int rank, Member& member) -> std::string {
    std::vector<float> v(10);
    OpRequest request = receive(v, {1}, 3);
    if (rank == 1) {
      request.collective = Collective::kSend;
      request.input.swap(request.output);
      request.peer = {0};
      request.dtype = DType::kI32;
    }
    Status status = member.group->start(request).value()->wait(seconds(20));
    while (status.is_ok()) status = member.group->health();  // the sender hears of it
    const bool told = status.message().find("dtypes of send and recv differ") != std::string::npos;
    return told ? "" : status.message();
  }));
}

std::string any_source(int rank, Member& member) {
  constexpr int kEach = 10;
  const int size = member.group->size();
  std::vector<int> seen(static_cast<std::size_t>(size), 0);
  for (int i = 0; i < (rank == 0 ? kEach * (size - 1) : kEach); ++i) {
    // Too large to come unasked.
    std::vector<float> v(20'000, static_cast<float>(rank));
    OpRequest request = receive(v, comm::kAnySource, 5);
    if (rank != 0) {
      request.collective = Collective::kSend;
      request.input.swap(request.output);
      request.peer = {0};
    }
    auto work = member.group->start(request);
    if (!work.is_ok()) return work.status().message();
    if (Status s = work.value()->wait(seconds(60)); !s.is_ok()) return s.message();
    if (rank != 0) continue;
    const int source = work.value()->source().value;
    if (source < 1 || source >= size) return "source " + std::to_string(source);
    if (v[19'999] != static_cast<float>(source)) return "a message of somebody else";
    ++seen[static_cast<std::size_t>(source)];
  }
  for (int r = 1; rank == 0 && r < size; ++r) {
    if (seen[static_cast<std::size_t>(r)] != kEach) return "messages lost";
  }
  return "";
}

TEST_CASE("a receive from any source takes each message once and names its sender") {
  expect_no_errors(run_world(4, "shm", any_source));
  expect_no_errors(run_world(4, "tcp", any_source));
}

TEST_CASE("a receive from any source outlives a rank that has left in peace") {
  for (const char* transport : {"shm", "tcp"}) {
    expect_no_errors(run_world(3, transport, [](int rank, Member& member) -> std::string {
      if (rank == 1) return "";
      std::vector<float> v(10, static_cast<float>(rank));
      OpRequest request = receive(v, comm::kAnySource, 5);
      if (rank == 2) {
        // Time for the connections of rank 1 to end.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        request.collective = Collective::kSend;
        request.input.swap(request.output);
        request.peer = {0};
      }
      auto work = member.group->start(request);
      if (!work.is_ok()) return work.status().message();
      return work.value()->wait(seconds(20)).message();
    }));
  }
}

TEST_CASE("a receive posted after one from any source gets the later message") {
  expect_no_errors(run_world(2, "shm", [](int rank, Member& member) -> std::string {
    std::vector<float> first(10, 1.0F);
    std::vector<float> second(10, 2.0F);
    std::vector<std::shared_ptr<comm::Work>> works;
    for (auto* v : {&first, &second}) {
      OpRequest request = receive(*v, rank == 0 && v == &first ? comm::kAnySource : Rank{1}, 3);
      if (rank == 1) {
        request.collective = Collective::kSend;
        request.input.swap(request.output);
        request.peer = {0};
      } else {
        v->assign(10, 0.0F);
      }
      works.push_back(member.group->start(request).value());
    }
    for (const auto& work : works) {
      if (Status s = work->wait(seconds(60)); !s.is_ok()) return s.message();
    }
    return first[9] == 1.0F && second[9] == 2.0F ? "" : "out of order";
  }));
}

TEST_CASE("a receive from any source ends when a peer aborts") {
  expect_no_errors(run_world(2, "tcp", [](int rank, Member& member) -> std::string {
    std::vector<float> v(10);
    if (rank == 1) {
      member.group->abort("enough");
      return "";
    }
    auto work = member.group->start(receive(v, comm::kAnySource, 3));
    const Status status = work.value()->wait(seconds(20));
    return status.code() == Code::kPeerLost ? "" : status.message();
  }));
}

}  // namespace
}  // namespace holdfast::testing
