// The mailbox between real processes: order, wildcards, large messages, and the loss of a rank.
#include <doctest/doctest.h>

#include <csignal>
#include <cstring>
#include <numeric>
#include <thread>

#include "comm/message/mailbox.h"
#include "process_worlds.h"
#include "worlds.h"

namespace holdfast::testing {
namespace {

using namespace comm;

// Receives from any source take what comes, so that each part of a test has a context of its own:
// ranks that are ahead send for the next part already.
constexpr ContextId kFirst{7};
constexpr ContextId kSecond{8};
constexpr ContextId kSurvivors{9};

struct Joined {
  std::shared_ptr<Node> node;
  std::shared_ptr<Communicator> group;
  std::shared_ptr<Mailbox> mail;
};

std::string join(int rank, int size, Store& store, const std::string& transport, Joined& joined) {
  auto node = Node::create(options_for(transport));
  if (!node.is_ok()) return node.status().message();
  joined.node = node.value();
  auto group = joined.node->join(store, {"world", {rank}, size, {}, {}});
  if (!group.is_ok()) return group.status().message();
  joined.group = group.value();
  auto mail = joined.group->mailbox();
  if (!mail.is_ok()) return mail.status().message();
  joined.mail = mail.value();
  std::vector<Rank> members;
  for (int r = 0; r < size; ++r) members.push_back({r});
  for (const ContextId context : {kFirst, kSecond, kSurvivors}) {
    const Status open = joined.mail->open(context, members);
    if (!open.is_ok()) return open.message();
  }
  return "";
}

// Every rank sends messages of all sizes to every other, and takes them from any source.
std::string exchange(int rank, int size, Mailbox& mail, ContextId context) {
  const std::vector<std::size_t> sizes{0, 8, 5000, 16'384, 300'000, 3'000'000};
  std::vector<std::vector<std::byte>> payloads;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    payloads.emplace_back(sizes[i], static_cast<std::byte>(rank * 16 + static_cast<int>(i)));
  }
  const std::size_t peers = static_cast<std::size_t>(size - 1);
  std::vector<MailRequest> sends(peers * sizes.size());
  std::size_t next = 0;
  for (int r = 0; r < size; ++r) {
    for (std::size_t i = 0; r != rank && i < sizes.size(); ++i) {
      mail.send(sends[next++], {context,
                                {r},
                                static_cast<std::int32_t>(i),
                                SendMode::kStandard,
                                {payloads[i].data(), sizes[i]}});
    }
  }
  std::vector<std::size_t> seen(static_cast<std::size_t>(size));
  for (std::size_t count = 0; count < sends.size(); ++count) {
    std::vector<std::byte> room(sizes.back());
    MailRequest receive;
    mail.receive(receive, {context}, {room.data(), room.size()});
    if (!mail.wait(receive, seconds(30))) return "no message came";
    const auto& result = receive.result;
    if (result.outcome != MailOutcome::kOk) return result.status.message();
    const auto tag = static_cast<std::size_t>(result.tag);
    if (seen[static_cast<std::size_t>(result.source.value)]++ != tag) return "out of order";
    if (result.bytes != sizes[tag]) return "another size";
    for (std::size_t i = 0; i < sizes[tag]; ++i) {
      const int expected = result.source.value * 16 + static_cast<int>(tag);
      if (room[i] != static_cast<std::byte>(expected)) return "other bytes";
    }
  }
  for (MailRequest& send : sends) {
    if (!mail.wait(send, seconds(30))) return "a send did not end";
    if (send.result.outcome != MailOutcome::kOk) return send.result.status.message();
  }
  return "";
}

void expect_well(const std::vector<Ending>& endings) {
  for (const Ending& ending : endings) {
    CHECK(ending.words == "");
    CHECK(ending.code == 0);
  }
}

}  // namespace

TEST_CASE("messages of all sizes reach every rank in order, over shared memory and sockets") {
  for (const std::string transport : {"shm", "tcp"}) {
    CAPTURE(transport);
    expect_well(run_processes(3, [&](int rank, Store& store) {
      Joined joined;
      std::string wrong = join(rank, 3, store, transport, joined);
      if (wrong.empty()) wrong = exchange(rank, 3, *joined.mail, kFirst);
      if (wrong.empty()) wrong = exchange(rank, 3, *joined.mail, kSecond);
      if (joined.group) (void)joined.group->close(seconds(10));
      return wrong;
    }));
  }
}

namespace {

// Messages to and fro in a context of their own, by one of several threads of a rank.
std::string talk(int rank, Mailbox& mail, int lane, int rounds) {
  const Rank other{1 - rank};
  const std::size_t size = lane == 0 ? 100'000 : 8;
  std::vector<std::byte> data(size);
  for (int i = 0; i < rounds; ++i) {
    for (const int sender : {0, 1}) {
      MailRequest request;
      if (sender == rank) {
        data[0] = static_cast<std::byte>(i);
        mail.send(request, {kFirst, other, lane, SendMode::kSynchronous, {data.data(), size}});
      } else if (lane == 1) {
        auto found = mail.wait_match({kFirst, other, lane}, seconds(30));
        if (!found.is_ok() || !found.value()) return "no message is found";
        mail.receive_matched(request, found.value(), {data.data(), size});
      } else {
        mail.receive(request, {kFirst, kAnyMailSource, lane}, {data.data(), size});
      }
      if (!mail.wait(request, seconds(30))) return "a request hangs";
      if (request.result.outcome != MailOutcome::kOk) return request.result.status.message();
      if (data[0] != static_cast<std::byte>(i)) return "another message";
    }
  }
  return "";
}

}  // namespace

TEST_CASE("several threads of each rank talk at once, each with its own messages") {
  for (const std::string transport : {"shm", "tcp"}) {
    CAPTURE(transport);
    expect_well(run_processes(2, [&](int rank, Store& store) {
      Joined joined;
      std::string wrong = join(rank, 2, store, transport, joined);
      if (!wrong.empty()) return wrong;
      std::vector<std::string> found(3);
      std::vector<std::thread> threads;
      for (int lane = 0; lane < 3; ++lane) {
        threads.emplace_back([&, lane] {
          found[static_cast<std::size_t>(lane)] = talk(rank, *joined.mail, lane, 200);
        });
      }
      for (std::thread& thread : threads) thread.join();
      (void)joined.group->close(seconds(10));
      for (const std::string& one : found) wrong += one;
      return wrong;
    }));
  }
}

// Rank 1 is killed while the others wait for it in all ways.
TEST_CASE("a killed rank ends receives from any source, large sends and probes at once") {
  const auto endings = run_processes(3, [&](int rank, Store& store) -> std::string {
    Joined joined;
    if (const auto wrong = join(rank, 3, store, "shm", joined); !wrong.empty()) return wrong;
    Mailbox& mail = *joined.mail;
    if (const auto wrong = exchange(rank, 3, mail, kFirst); !wrong.empty()) return wrong;
    if (rank == 1) {
      // Both others have said that they wait.
      if (!store.get("ready/0", seconds(30)).is_ok()) return "nobody waits";
      if (!store.get("ready/2", seconds(30)).is_ok()) return "nobody waits";
      ::raise(SIGKILL);
    }
    std::vector<std::byte> large(1'000'000);
    MailRequest any;
    MailRequest send;
    mail.receive(any, {kSecond}, {large.data(), large.size()});
    mail.send(send, {kSecond, {1}, 3, SendMode::kStandard, {large.data(), large.size()}});
    if (!store.set("ready/" + std::to_string(rank), "1").is_ok()) return "no store";
    const auto probed = mail.wait_probe({kSecond, {1}, 5}, seconds(20));
    if (probed.is_ok() || probed.status().code() != Code::kPeerLost) return "the probe went on";
    for (MailRequest* request : {&any, &send}) {
      if (!mail.wait(*request, seconds(5))) return "a request hangs";
      const Status& status = request->result.status;
      if (status.code() != Code::kPeerLost) return "no loss: " + status.message();
      if (status.ranks() != std::vector<Rank>{{1}}) return "another rank";
    }
    // The survivors go on; one of them may not have heard of the loss yet.
    MailRequest out;
    MailRequest in;
    const Rank other{2 - rank};
    mail.receive(in, {kSurvivors, other, 9}, {large.data(), large.size()});
    mail.send(out, {kSurvivors, other, 9, SendMode::kSynchronous, {large.data(), 8}});
    if (!mail.wait(in, seconds(10)) || !mail.wait(out, seconds(10))) return "they do not go on";
    if (in.result.bytes != 8) return in.result.status.message();
    return "";
  });
  INFO(endings[0].words, endings[1].words, endings[2].words);
  CHECK(endings[1].signal == SIGKILL);
  CHECK(endings[0].code == 0);
  CHECK(endings[2].code == 0);
}

}  // namespace holdfast::testing
