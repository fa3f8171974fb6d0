// Whole nodes, each on a thread of its own, over real shared memory and real sockets.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

#include "base/net/socket.h"
#include "comm/transport/frame.h"
#include "worlds.h"

namespace holdfast::runtime {
namespace {

using comm::Collective;
using comm::OpRequest;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::all_reduce;
using testing::block;
using testing::expect_no_errors;
using testing::Member;
using testing::MemoryStore;
using testing::options_for;
using testing::run_world;

std::string all_reduce_sizes(int rank, Member& member) {
  const int n = member.group->size();
  for (const std::size_t count : {0UL, 1UL, 1000UL, 9000UL, 100'000UL, 700'001UL}) {
    std::vector<float> v(count);
    for (std::size_t i = 0; i < count; ++i) {
      v[i] = static_cast<float>(i % 1000) + static_cast<float>(rank);
    }
    auto work = member.group->start(all_reduce(v));
    if (!work.is_ok()) return work.status().message();
    if (Status s = work.value()->wait(seconds(60)); !s.is_ok()) return s.message();
    for (std::size_t i = 0; i < count; ++i) {
      const auto sum = static_cast<float>(n * static_cast<int>(i % 1000) + n * (n - 1) / 2);
      if (v[i] != sum) return "wrong sum at " + std::to_string(i) + " of " + std::to_string(count);
    }
  }
  return "";
}

TEST_CASE("all-reduce over shared memory and tcp, 1 to 5 ranks") {
  for (const std::string transport : {"shm", "tcp"}) {
    for (int n = 1; n <= 5; ++n) {
      if (transport == "shm" || n > 1) expect_no_errors(run_world(n, transport, all_reduce_sizes));
    }
  }
}

std::string many_at_once(int rank, Member& member) {
  constexpr std::size_t kOps = 60;
  std::vector<std::vector<float>> v;
  std::vector<std::shared_ptr<comm::Work>> works;
  std::atomic<int> callbacks{0};
  for (std::size_t i = 0; i < kOps; ++i) {
    v.emplace_back(i % 3 == 0 ? 50'000 : 10, static_cast<float>(rank + 1));
  }
  for (auto& buffer : v) {
    auto work = member.group->start(all_reduce(buffer));
    if (!work.is_ok()) return work.status().message();
    works.push_back(work.value());
    works.back()->on_done([&](const Status&) { callbacks.fetch_add(1); });
  }
  const auto expected = static_cast<float>(member.group->size() * (member.group->size() + 1) / 2);
  for (std::size_t i = kOps; i-- > 0;) {
    if (Status s = works[i]->wait(seconds(60)); !s.is_ok()) return s.message();
    if (v[i][0] != expected || v[i].back() != expected) return "wrong sum";
  }
  return callbacks.load() == static_cast<int>(kOps) ? "" : "callbacks lost";
}

// Calls that may end without a work, beside messages of another thread and works under way.
std::string brief_calls(int rank, Member& member) {
  const int n = member.group->size();
  std::string wrong;
  std::thread other([&] {
    for (int i = 0; i < 300 && wrong.empty(); ++i) {
      std::vector<float> v(10, static_cast<float>(rank));
      OpRequest message;
      message.collective = rank == 0 ? comm::Collective::kSend : comm::Collective::kRecv;
      message.peer = {1 - rank};
      (rank == 0 ? message.input : message.output) = {block(v)};
      if (rank > 1) break;
      auto work = member.group->start(message);
      const Status status = work.is_ok() ? work.value()->wait(seconds(60)) : work.status();
      if (!status.is_ok() || v[0] != 0) wrong = "message: " + status.message();
    }
  });
  std::string result;
  for (int i = 0; i < 1000 && result.empty(); ++i) {
    std::vector<float> early(10, 1.0F);
    std::vector<float> v(100, static_cast<float>(i + rank));
    std::shared_ptr<comm::Work> first;
    if (i % 10 == 0) first = member.group->start(all_reduce(early)).value();
    auto ran = member.group->run(all_reduce(v));
    if (!ran.is_ok()) {
      result = ran.status().message();
      break;
    }
    const auto& [work, outcome] = ran.value();
    const Status status = work ? work->wait(seconds(60)) : Status::ok();
    if (!status.is_ok()) result = status.message();
    const comm::Outcome& made_of = work ? work->outcome() : *outcome;
    if (made_of.contributors.size() != static_cast<std::size_t>(n)) result = "contributors";
    if (v[99] != static_cast<float>(n * i + n * (n - 1) / 2)) result = "wrong sum";
    if (first && !first->wait(seconds(60)).is_ok()) result = "the first one";
  }
  other.join();
  return result + wrong;
}

TEST_CASE("calls that may end at once") {
  for (const std::string transport : {"shm", "tcp"}) {
    for (const int n : {2, 3}) expect_no_errors(run_world(n, transport, brief_calls));
  }
}

TEST_CASE("many ops in flight end in any order of waiting") {
  expect_no_errors(run_world(3, "shm", many_at_once));
  expect_no_errors(run_world(3, "tcp", many_at_once));
}

std::string several_threads(int rank, Member& member) {
  // Two groups' worth of traffic: messages by tag from several threads of each rank.
  const int peer = 1 - rank;
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (std::uint32_t tag = 0; tag < 4; ++tag) {
    threads.emplace_back([&, tag] {
      std::vector<float> out(5000, static_cast<float>(tag));
      std::vector<float> in(5000);
      for (int i = 0; i < 20 && errors[tag].empty(); ++i) {
        OpRequest send;
        send.collective = Collective::kSend;
        send.input = {block(out)};
        OpRequest recv;
        recv.collective = Collective::kRecv;
        recv.output = {block(in)};
        send.peer = recv.peer = {peer};
        send.tag = recv.tag = tag;
        auto r = member.group->start(recv);
        auto s = member.group->start(send);
        for (auto* work : {&s, &r}) {
          if (!work->is_ok()) errors[tag] = work->status().message();
          if (Status status = work->value()->wait(seconds(60)); !status.is_ok()) {
            errors[tag] = status.message();
          }
        }
        if (in[4999] != static_cast<float>(tag)) errors[tag] = "wrong message";
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return std::accumulate(errors.begin(), errors.end(), std::string());
}

std::string messages_between_some(int rank, Member& member) {
  std::vector<float> v{1};
  if (rank < 2) {
    OpRequest message;
    message.collective = rank == 0 ? Collective::kSend : Collective::kRecv;
    (rank == 0 ? message.input : message.output) = {block(v)};
    message.peer = {1 - rank};
    auto work = member.group->start(message);
    if (!work.is_ok()) return work.status().message();
    if (Status s = work.value()->wait(seconds(60)); !s.is_ok()) return s.message();
  }
  return all_reduce_sizes(rank, member);
}

TEST_CASE("messages between some ranks leave the count of collectives as it is") {
  expect_no_errors(run_world(3, "shm", messages_between_some));
  expect_no_errors(run_world(3, "tcp", messages_between_some));
}

TEST_CASE("several threads of a process may wait at once") {
  expect_no_errors(run_world(2, "shm", several_threads));
  expect_no_errors(run_world(2, "tcp", several_threads));
}

TEST_CASE("a rank that never comes is named") {
  MemoryStore store;
  auto node = Node::create(options_for("shm"));
  REQUIRE(node.is_ok());
  auto group = node.value()->join(store, {"world", {0}, 3, milliseconds(200), {}});
  REQUIRE_FALSE(group.is_ok());
  CHECK(group.status().code() == Code::kTimeout);
  CHECK(group.status().ranks() == std::vector<Rank>{{1}, {2}});
  CHECK(group.status().message().find("1, 2") != std::string::npos);
}

// What rank 1 would have put into the store.
std::string card(const std::string& version, int port) {
  return "version=" + version +
         "\nmember=1\nhost=elsewhere\naddresses=127.0.0.1\nport=" + std::to_string(port) +
         "\nshm=0\nbell=\nflat=\nnonce=1\n";
}

TEST_CASE("a member of another version is refused, and named") {
  MemoryStore store;
  REQUIRE(store.set("holdfast/world/1/card/1", card("99", 1)).is_ok());
  auto node = Node::create(options_for("tcp"));
  auto group = node.value()->join(store, {"world", {0}, 2, seconds(5), {}});
  CHECK(group.status().code() == Code::kProtocolError);
  CHECK(group.status().ranks() == std::vector<Rank>{{1}});
  CHECK(group.status().message().find("version 99") != std::string::npos);
}

TEST_CASE("an address that cannot be reached is named within the time limit") {
  // Bound, and nobody listens: nobody else is given the port meanwhile.
  const int unused = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(unused, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0);
  const int port = local_port(unused).value();
  MemoryStore store;
  REQUIRE(store.set("holdfast/world/1/card/1", card(std::to_string(comm::kProtocolVersion), port))
              .is_ok());
  auto node = Node::create(options_for("tcp"));
  auto group = node.value()->join(store, {"world", {0}, 2, milliseconds(300), {}});
  CHECK(group.status().code() == Code::kTimeout);
  CHECK(group.status().ranks() == std::vector<Rank>{{1}});
  const std::string where = "127.0.0.1:" + std::to_string(port);
  CHECK_MESSAGE(group.status().message().find(where) != std::string::npos,
                group.status().message());
  ::close(unused);
}

// Far away: an answer takes longer than a short look.
class FarStore final : public Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    return near_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Duration timeout) override {
    if (timeout < milliseconds(50)) return Status{Code::kTimeout, "no answer for " + key};
    return near_.get(key, timeout);
  }

 private:
  MemoryStore near_;
};

TEST_CASE("who is late for a connection is waited for, however far the store is") {
  FarStore store;
  REQUIRE(store.set("holdfast/world/1/card/1", card(std::to_string(comm::kProtocolVersion), 1))
              .is_ok());
  auto node = Node::create(options_for("tcp"));
  auto group = node.value()->join(store, {"world", {0}, 2, milliseconds(600), {}});
  CHECK(group.status().code() == Code::kTimeout);
  CHECK_MESSAGE(group.status().message().find("no connection to ranks 1") != std::string::npos,
                group.status().message());
}

TEST_CASE("damaged bytes in the store are refused") {
  MemoryStore store;
  REQUIRE(store.set("holdfast/world/1/card/1", "\x7f\x45LF, not a card").is_ok());
  auto node = Node::create(options_for("tcp"));
  auto group = node.value()->join(store, {"world", {0}, 2, seconds(5), {}});
  CHECK(group.status().code() == Code::kProtocolError);
}

TEST_CASE("a rank that leaves is no hindrance to the others") {
  for (const std::string transport : {"shm", "tcp"}) {
    for (const std::size_t count : {10UL, 100'000UL}) {
      const auto errors = run_world(4, transport, [count](int rank, Member& member) -> std::string {
        std::vector<float> v(count, 1.0F);
        if (rank == 2) return member.group->close(seconds(5)).message();
        auto work = member.group->start(all_reduce(v));
        if (!work.is_ok()) return work.status().message();
        const Status status = work.value()->wait(seconds(30));
        if (!status.is_ok()) return status.message();
        if (v.front() != 3.0F || v.back() != 3.0F) return "wrong sum";
        const comm::Outcome& outcome = work.value()->outcome();
        if (outcome.missing != std::vector<Rank>{{2}}) return "nobody is said to be missing";
        if (outcome.contributors != std::vector<Rank>{{0}, {1}, {3}}) return "other contributors";
        return outcome.epoch == Epoch{2} && outcome.retried ? "" : "another epoch";
      });
      expect_no_errors(errors);
    }
  }
}

TEST_CASE("with on_peer_loss=raise a rank that leaves ends the op on all others, until advance()") {
  for (const std::string transport : {"shm", "tcp"}) {
    const auto raise = [](Options& options) { options.on_peer_loss = comm::PeerLoss::kRaise; };
    const auto body = [](int rank, Member& member) -> std::string {
      std::vector<float> v(100'000, 1.0F);
      if (rank == 2) return member.group->close(seconds(5)).message();
      auto work = member.group->start(all_reduce(v));
      if (!work.is_ok()) return work.status().message();
      const Status status = work.value()->wait(seconds(30));
      if (status.code() != Code::kPeerLost) return std::string("not lost: ") + status.message();
      if (status.ranks() != std::vector<Rank>{{2}}) return "another rank: " + status.message();
      const Status advanced = member.group->advance({})->wait(seconds(30));
      if (!advanced.is_ok()) return advanced.message();
      v.assign(v.size(), 1.0F);
      work = member.group->start(all_reduce(v));
      const Status again = work.value()->wait(seconds(30));
      return !again.is_ok() ? again.message() : v[0] == 3.0F ? "" : "wrong sum";
    };
    expect_no_errors(run_world(4, transport, body, raise));
  }
}

// Of a rank that dies: from some operation on nothing gets through.
class DyingStore final : public Store {
 public:
  DyingStore(Store& store, int operations) : store_(store), left_(operations) {}
  Status set(const std::string& key, const std::string& value) override {
    return dies() ? dead() : store_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Duration timeout) override {
    if (dies()) return dead();
    return store_.get(key, timeout);
  }
  bool tells_at_once() const override { return true; }
  Result<bool> has(const std::string& key) override {
    if (dies()) return dead();
    return store_.has(key);
  }
  Result<std::string> set_once(const std::string& key, const std::string& value) override {
    if (dies()) return dead();
    return store_.set_once(key, value);
  }

 private:
  bool dies() { return left_-- <= 0; }
  static Status dead() { return {Code::kSystem, "dead"}; }

  Store& store_;
  int left_;
};

// What rank 2 of three takes part in until it goes, and what becomes of it on another one.
struct Making {
  Code made = Code::kOk;
  Code ran = Code::kOk;
  float sum = 0;
  std::vector<Rank> missing;
};

Making make_with(Member& member, Store& store, int rank) {
  JoinRequest request{"part", {rank}, 3, seconds(20), {}};
  request.ranks = {{0}, {1}, {2}};
  request.parent = member.group;
  auto part = member.node->join(store, request);
  if (!part.is_ok()) return {part.status().code(), {}, 0, part.status().ranks()};
  if (rank == 2) return {};
  std::vector<float> v(1000, 1.0F);
  auto work = part.value()->start(all_reduce(v));
  if (!work.is_ok()) return {Code::kOk, work.status().code(), 0, {}};
  const Status status = work.value()->wait(seconds(20));
  return {Code::kOk, status.code(), v[0],
          status.is_ok() ? work.value()->outcome().missing : status.ranks()};
}

// All before it has said what the others need of it: they find its place vacant.
constexpr std::array kOperationsLeft{0, 1, 2, 4, 6};

std::string to_string(const Making& making) {
  std::string text = std::string("made ") + code_name(making.made) + ", ran " +
                     code_name(making.ran) + ", sum " + std::to_string(making.sum) + ", missing";
  for (const Rank rank : making.missing) text += " " + std::to_string(rank.value);
  return text;
}

// What the two that stay make of it, alike.
Making make_while_one_goes(const std::string& transport, int operations, comm::PeerLoss loss) {
  MemoryStore store;
  std::array<Making, 2> makings;
  expect_no_errors(run_world(
      3, transport,
      [&](int rank, Member& member) -> std::string {
        DyingStore dying(store, rank == 2 ? operations : std::numeric_limits<int>::max());
        const Making making = make_with(member, dying, rank);
        if (rank < 2) makings[static_cast<std::size_t>(rank)] = making;
        return "";
      },
      [loss](Options& options) { options.on_peer_loss = loss; }));
  CAPTURE(operations);
  CHECK(to_string(makings[0]) == to_string(makings[1]));
  return makings[0];
}

TEST_CASE("a member that goes while a group is made is not waited for") {
  for (const std::string transport : {"shm", "tcp"}) {
    for (const int operations : kOperationsLeft) {
      const Making making = make_while_one_goes(transport, operations, comm::PeerLoss::kContinue);
      CHECK(to_string(making) == to_string({Code::kOk, Code::kOk, 2.0F, {{2}}}));
    }
  }
}

TEST_CASE("with on_peer_loss=raise a group that loses a member is made by none of the others") {
  for (const int operations : kOperationsLeft) {
    const Making making = make_while_one_goes("shm", operations, comm::PeerLoss::kRaise);
    CHECK(to_string(making) == to_string({Code::kPeerLost, Code::kOk, 0.0F, {{2}}}));
  }
}

TEST_CASE("without fault tolerance a rank that leaves ends the group") {
  const auto off = [](Options& options) { options.fault_tolerance = false; };
  const auto body = [](int rank, Member& member) -> std::string {
    std::vector<float> v(100'000, 1.0F);
    if (rank == 2) return member.group->close(seconds(5)).message();
    auto work = member.group->start(all_reduce(v));
    if (!work.is_ok()) return work.status().message();
    const Status status = work.value()->wait(seconds(30));
    if (status.code() != Code::kPeerLost) return std::string("not lost: ") + status.message();
    if (status.ranks() != std::vector<Rank>{{2}}) return "another rank: " + status.message();
    return member.group->health().code() == Code::kPeerLost ? "" : "still healthy";
  };
  expect_no_errors(run_world(4, "shm", body, off));
}

TEST_CASE("what a rank sent before it left is still delivered") {
  for (const std::string transport : {"shm", "tcp"}) {
    const auto errors = run_world(2, transport, [](int rank, Member& member) -> std::string {
      std::vector<float> v(100, 3.0F);
      OpRequest request;
      request.collective = rank == 0 ? Collective::kRecv : Collective::kSend;
      request.peer = {1 - rank};
      if (rank == 1) request.input = {block(v)};
      if (rank == 0) {
        request.output = {block(v)};
        v.assign(100, 0.0F);
        std::this_thread::sleep_for(milliseconds(200));  // rank 1 is gone by now
      }
      auto work = member.group->start(request);
      if (!work.is_ok()) return work.status().message();
      const Status status = work.value()->wait(seconds(30));
      if (!status.is_ok()) return status.message();
      if (v[99] != 3.0F) return "not delivered";
      if (rank == 1) return "";
      // The next message will never come.
      auto next = member.group->start(request);
      if (!next.is_ok()) return next.status().message();
      return next.value()->wait(seconds(30)).code() == Code::kPeerLost ? "" : "not lost";
    });
    expect_no_errors(errors);
  }
}

TEST_CASE("an op that takes too long names who is waited for, on every rank") {
  const auto errors = run_world(3, "shm", [](int rank, Member& member) -> std::string {
    std::vector<float> v(10, 1.0F);
    if (rank == 1) {
      while (member.group->health().is_ok()) std::this_thread::yield();
      return "";
    }
    OpRequest request = all_reduce(v);
    request.timeout = milliseconds(100);
    auto work = member.group->start(request);
    if (!work.is_ok()) return work.status().message();
    const Status status = work.value()->wait(seconds(30));
    if (status.code() != Code::kTimeout) return std::string("not a timeout: ") + status.message();
    return status.message().find("rank 1") != std::string::npos ? "" : status.message();
  });
  expect_no_errors(errors);
}

TEST_CASE("abort ends the op here and on the others") {
  const auto errors = run_world(2, "tcp", [](int rank, Member& member) -> std::string {
    std::vector<float> v(10, 1.0F);
    if (rank == 1) {
      member.group->abort("no longer wanted");
      while (member.group->health().is_ok()) std::this_thread::yield();
      return member.group->health().code() == Code::kAborted ? "" : "not aborted";
    }
    auto work = member.group->start(all_reduce(v));
    if (!work.is_ok()) return work.status().message();
    const Status status = work.value()->wait(seconds(30));
    return status.code() == Code::kPeerLost ? "" : "not lost: " + status.message();
  });
  expect_no_errors(errors);
}

TEST_CASE("calls that do not match are refused on every rank, not waited for") {
  for (const std::string transport : {"shm", "tcp"}) {
    for (const std::size_t base : {100UL, 100'000UL}) {
      const auto errors = run_world(2, transport, [base](int rank, Member& member) -> std::string {
        std::vector<float> v(base + static_cast<std::size_t>(rank), 1.0F);
        auto work = member.group->start(all_reduce(v));
        if (!work.is_ok()) return work.status().message();
        const Status status = work.value()->wait(seconds(30));
        return status.code() == Code::kProtocolError ? "" : "not refused: " + status.message();
      });
      expect_no_errors(errors);
    }
  }
}

TEST_CASE("unusable requests are refused before anything moves") {
  const auto errors = run_world(1, "shm", [](int, Member& member) -> std::string {
    std::vector<float> v(4);
    OpRequest request = all_reduce(v);
    request.output.clear();
    if (member.group->start(request).status().code() != Code::kConfigError) return "block count";
    request = all_reduce(v);
    request.op = ReduceOp::kBand;
    if (member.group->start(request).status().code() != Code::kUnsupported) return "op";
    request = all_reduce(v);
    request.collective = Collective::kBroadcast;
    request.root = {5};
    if (member.group->start(request).status().code() != Code::kConfigError) return "root";
    request = all_reduce(v);
    request.algorithm = "magic";
    if (member.group->start(request).status().code() != Code::kConfigError) return "algorithm";
    return "";
  });
  expect_no_errors(errors);
}

TEST_CASE("options that cannot work are refused with what is accepted") {
  Options options = options_for("replicated pigeon");
  auto node = Node::create(options);
  CHECK(node.status().code() == Code::kConfigError);
  CHECK(node.status().message().find("\"shm\"") != std::string::npos);
  options = options_for("tcp");
  options.address = "not.an.address";
  CHECK(Node::create(options).status().code() == Code::kConfigError);
  options = options_for("tcp");
  auto first = Node::create(options);
  REQUIRE(first.is_ok());
}

TEST_CASE("a port in use is named") {
  auto fd = listen_on("127.0.0.1", 0);
  REQUIRE(fd.is_ok());
  Options options = options_for("tcp");
  options.port = local_port(fd.value()).value();
  auto node = Node::create(options);
  CHECK(node.status().code() == Code::kSystem);
  CHECK(node.status().message().find(std::to_string(options.port)) != std::string::npos);
  ::close(fd.value());
}

TEST_CASE("a stranger on the port is turned away and the group forms all the same") {
  Options options = options_for("tcp");
  auto probe = listen_on("127.0.0.1", 0);
  options.port = local_port(probe.value()).value();
  ::close(probe.value());
  MemoryStore store;
  auto node = Node::create(options);
  REQUIRE(node.is_ok());
  auto stranger = start_connect({"127.0.0.1", options.port});
  REQUIRE(stranger.is_ok());
  std::string error;
  std::thread other([&] {
    auto second = Node::create(options_for("tcp"));
    auto group = second.value()->join(store, {"world", {1}, 2, {}, {}});
    if (!group.is_ok()) error = group.status().message();
  });
  const std::string bytes(200, '\0');
  [[maybe_unused]] const auto sent =
      ::send(stranger.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  auto group = node.value()->join(store, {"world", {0}, 2, {}, {}});
  CHECK(group.is_ok());
  other.join();
  CHECK(error == "");
  ::close(stranger.value());
}

}  // namespace
}  // namespace holdfast::runtime
